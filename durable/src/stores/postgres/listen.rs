//! Listen: a thread that hears when another node has put something in, and reads the database's
//! clock while something is due soon. News is a hint: where the database has no `LISTEN`, or the
//! connection is lost, it comes with the next scan. A clock that is read more rarely makes timers
//! later.

use super::clock::DatabaseClock;
use super::session::{Access, Connect, News, access_of, set_all};
use crate::sync::ThreadBuilder;
use futures_util::future::{Either, select};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::Error;

/// Between two tries to connect.
const AGAIN: Duration = Duration::from_secs(5);

/// The clock is read so often at least: so a connection is noticed that has died silently.
const CHECK_EVERY: Duration = Duration::from_secs(10);

/// The next reading comes this long after the last one.
const READ_MIN: Duration = Duration::from_millis(2);

/// A connection that has not answered for so long is taken for lost, and so is an address that has
/// not connected.
const ANSWER_MAX: Duration = Duration::from_secs(5);

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
    pub(super) fn start(
        schema: &str,
        connect: Connect,
        clock: Arc<DatabaseClock>,
        news: News,
    ) -> Option<Self> {
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
                    loop {
                        let _ = hear(&connect, &channel, &news, &clock, &first).await;
                        sleep(AGAIN).await;
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

/// What has to be polled for a connection. One that is dead would wait for ever: it ends with this.
struct Driver(JoinHandle<Result<(), Error>>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Hears, and reads the clock, until the connection is lost. `None`, too: it is.
async fn hear(
    connect: &Connect,
    channel: &str,
    news: &News,
    clock: &DatabaseClock,
    first: &crossbeam_channel::Sender<bool>,
) -> Option<()> {
    let connected = connect(news.clone(), ANSWER_MAX).await?.ok()?;
    let client = connected.client;
    let mut driver = Driver(tokio::spawn(connected.driver));
    let set = timeout(ANSWER_MAX, set_all(&client, [], &connected.keepalives));
    if set.await.ok()?.ok()? == Access::OnlyReads {
        // A standby tells nothing, and it has another clock.
        connected.let_in.avoid();
        return None;
    }
    let listen = format!("LISTEN {channel}");
    let listens = timeout(ANSWER_MAX, client.batch_execute(&listen)).await;
    // (Where the database says that it has no channels, the clock is read all the same.)
    let has_channels = match listens.ok()? {
        Ok(()) => true,
        Err(error) if error.code().is_some() => false,
        Err(_) => return None,
    };
    let _ = first.try_send(has_channels);
    // What was told before is not heard.
    news();
    loop {
        let next_reading = async {
            match clock.read_in() {
                Some(wait) => sleep(wait.max(READ_MIN)).await,
                None => {
                    select(pin!(clock.wanted()), pin!(sleep(CHECK_EVERY))).await;
                }
            }
        };
        if let Either::Left(_) = select(&mut driver.0, pin!(next_reading)).await {
            return None;
        }
        let read = timeout(ANSWER_MAX, clock.read_by(&client)).await;
        read.ok()?.ok()?;
        let access = timeout(ANSWER_MAX, access_of(&client)).await;
        if access.ok()?.ok()? == Access::OnlyReads {
            // It has become a standby, say, and another server is the primary.
            connected.let_in.avoid();
            return None;
        }
    }
}
