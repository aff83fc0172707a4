//! Learning in the background: one thread takes one namespace after the other, so that no answer waits for it.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
};

use earmark::Earmark;

use crate::metrics::Metrics;

/// The thread and its queue. Nothing is lost when the process dies: what was not learned yet is in the log, and is
/// learned with the next closed recall.
pub(crate) struct Learner {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    woken: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<String>,
    closing: bool,
}

impl Learner {
    pub(crate) fn start(earmark: Arc<Earmark>, metrics: Arc<Metrics>) -> Learner {
        let queue = Arc::new(Queue::default());
        let held = queue.clone();
        let work = move || {
            while let Some(namespace) = held.next() {
                learn(&earmark, &namespace, &metrics);
            }
        };
        let thread = std::thread::Builder::new().name("earmark-learner".to_owned()).spawn(work);
        let thread = thread.inspect_err(|error| tracing::error!(%error, "no thread to learn on")).ok();
        Learner { queue, thread: Mutex::new(thread) }
    }

    pub(crate) fn wake(&self, namespace: &str) {
        let mut state = self.queue.lock();
        if !state.waiting.iter().any(|name| name == namespace) {
            state.waiting.push_back(namespace.to_owned());
            self.queue.woken.notify_one();
        }
    }

    /// Learns what is waiting, then ends the thread.
    pub(crate) fn finish(&self) {
        self.queue.lock().closing = true;
        self.queue.woken.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the learning thread broke off");
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next namespace; `None` once everything is learned and the queue is closed.
    fn next(&self) -> Option<String> {
        let mut state = self.lock();
        loop {
            if let Some(name) = state.waiting.pop_front() {
                return Some(name);
            }
            if state.closing {
                return None;
            }
            state = self.woken.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn learn(earmark: &Earmark, name: &str, metrics: &Metrics) {
    let learned = earmark.existing(name).and_then(|namespace| namespace.learn());
    metrics.learned(learned.is_ok());
    if let Err(error) = learned {
        tracing::warn!(%error, "learning failed; it is tried again with the next closed recall");
    }
}
