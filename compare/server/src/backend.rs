//! The backend: a thread that answers each request after a fixed time. It is the same for all
//! timers, and uses none of them.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use wheelwork_kit::lock::lock;

/// It wakes no more often than that.
const STEP: Duration = Duration::from_millis(1);

pub(crate) struct Backend {
    after: Duration,
    questions: Arc<Questions>,
}

/// Those that wait for an answer, the first one first.
#[derive(Default)]
struct Questions {
    waiting: Mutex<VecDeque<(Instant, oneshot::Sender<()>)>>,
    came: Condvar,
}

impl Backend {
    pub(crate) fn start(after: Duration) -> Self {
        let questions = Arc::new(Questions::default());
        let answering = Arc::clone(&questions);
        let answer = move || answering.answer();
        thread::Builder::new()
            .name("backend".to_string())
            .spawn(answer)
            .expect("a thread can be spawned");
        Self { after, questions }
    }

    /// Waits for an answer. One that nobody waits for any more is dropped when it comes.
    pub(crate) async fn answer(&self) {
        let (answer, answered) = oneshot::channel();
        {
            let mut waiting = lock(&self.questions.waiting);
            waiting.push_back((Instant::now() + self.after, answer));
            if waiting.len() == 1 {
                self.questions.came.notify_one();
            }
        }
        answered.await.expect("the backend never ends");
    }
}

impl Questions {
    /// The backend's thread.
    fn answer(&self) {
        let mut due = Vec::new();
        loop {
            let first = {
                let mut waiting = lock(&self.waiting);
                while waiting.is_empty() {
                    waiting = self
                        .came
                        .wait(waiting)
                        .unwrap_or_else(PoisonError::into_inner);
                }
                waiting[0].0
            };
            thread::sleep(first.saturating_duration_since(Instant::now()).max(STEP));
            let now = Instant::now();
            let mut waiting = lock(&self.waiting);
            let answers = waiting.partition_point(|(at, _)| *at <= now);
            due.extend(waiting.drain(..answers));
            drop(waiting);
            // Its request may be over.
            due.drain(..).for_each(|(_, answer)| _ = answer.send(()));
        }
    }
}
