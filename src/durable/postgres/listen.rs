//! Listen: a thread that hears when another node has put something in. A hint: where the database
//! has no `LISTEN`, or the connection is lost, news comes with the next scan.

use super::session::{Connect, News};
use crate::sync::ThreadBuilder;
use futures_util::future::select;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::oneshot;

/// Between two tries to connect.
const AGAIN: Duration = Duration::from_secs(5);

/// The channel of a schema.
pub(super) fn channel(schema: &str) -> String {
    format!("{schema}_news")
}

/// The thread that listens. It ends when this is dropped.
pub(super) struct Listener {
    end: Option<oneshot::Sender<()>>,
    has_channels: bool,
}

impl Listener {
    /// Starts the thread. `None`: there is none.
    pub(super) fn start(schema: &str, connect: Connect, news: News) -> Option<Self> {
        let (end, mut ended) = oneshot::channel();
        let (first, listens) = crossbeam_channel::bounded(1);
        let channel = channel(schema);
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let Ok(runtime) = runtime else {
                return;
            };
            runtime.block_on(async {
                let hear_on = async {
                    while hear(&connect, &channel, &news, &first).await {
                        tokio::time::sleep(AGAIN).await;
                    }
                };
                // A sender that is gone ends it, too.
                select(pin!(hear_on), &mut ended).await;
            });
        };
        let thread = ThreadBuilder::new().name("wheelwork-listen".to_owned());
        thread.spawn(run).ok()?;
        let has_channels = listens.recv_timeout(AGAIN).unwrap_or(true);
        Some(Self {
            end: Some(end),
            has_channels,
        })
    }

    /// Whether others hear what is told.
    pub(super) fn is_heard(&self) -> bool {
        self.has_channels
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            let _ = end.send(());
        }
    }
}

/// Hears until the connection is lost. `false`: the database has no channels.
async fn hear(
    connect: &Connect,
    channel: &str,
    news: &News,
    first: &crossbeam_channel::Sender<bool>,
) -> bool {
    let Ok((client, driver)) = connect(news.clone()).await else {
        return true;
    };
    let driver = tokio::spawn(driver);
    let listens = client.batch_execute(&format!("LISTEN {channel}")).await;
    let has_channels = listens
        .as_ref()
        .err()
        .and_then(|error| error.code())
        .is_none();
    let _ = first.try_send(has_channels);
    if !has_channels {
        driver.abort();
        return false;
    }
    // What was told before is not heard.
    news();
    let _ = driver.await;
    true
}
