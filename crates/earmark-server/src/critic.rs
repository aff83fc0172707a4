//! The critic closes recalls that were left open, in the background and within a budget.
//!
//! What waits is the open recalls of the store and nothing else, so a restart forgets nothing.

use std::{
    collections::HashMap,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use earmark::{Earmark, ErrorKind, Result, critic::LlmCritic};

use crate::{config::CriticConfig, learner::Learner, metrics::Metrics};

/// Pause between two looks at the store.
const PAUSE: Duration = Duration::from_secs(5);
/// Pause after the endpoint failed.
const LONG_PAUSE: Duration = Duration::from_secs(60);
/// Failures of the endpoint over one recall after which it is left to expire: it may be too long, or make the model
/// talk without end, and the ones behind it wait.
const TRIES: u32 = 3;
/// Recalls looked up at once.
const BATCH: usize = 20;

/// The thread that looks for open recalls.
pub(crate) struct Watch {
    ended: Arc<Ended>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Ended {
    ended: Mutex<bool>,
    woken: Condvar,
}

impl Watch {
    /// Starts where at least one namespace is to be watched.
    pub(crate) fn start(
        config: CriticConfig,
        critic: Arc<LlmCritic>,
        earmark: Arc<Earmark>,
        learner: Arc<Learner>,
        metrics: Arc<Metrics>,
    ) -> Option<Watch> {
        if config.namespaces.is_empty() || config.calls_a_minute == 0 {
            return None;
        }
        let ended = Arc::new(Ended::default());
        let held = ended.clone();
        let pause = PAUSE.min(config.close_after.max(Duration::from_millis(20)));
        let budget = Budget::new(config.calls_a_minute, Instant::now());
        let (seen, failed) = Default::default();
        let mut rounds = Rounds { config, critic, earmark, learner, metrics, budget, seen, failed };
        let long_pause = LONG_PAUSE.min(12 * pause);
        let work = move || {
            let mut next = pause;
            while !held.after(next) {
                next = if rounds.run(&held) { pause } else { long_pause };
            }
        };
        let thread = std::thread::Builder::new().name("earmark-critic".to_owned()).spawn(work);
        let thread = thread.inspect_err(|error| tracing::error!(%error, "no thread for the critic")).ok();
        Some(Watch { ended, thread: Mutex::new(thread) })
    }

    /// Ends the thread after the call under way.
    pub(crate) fn finish(&self) {
        *self.ended.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ended.woken.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the critic's thread broke off");
        }
    }
}

impl Ended {
    /// Waits; whether the end came.
    fn after(&self, pause: Duration) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.woken.wait_timeout_while(ended, pause, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// One look after the other.
struct Rounds {
    config: CriticConfig,
    critic: Arc<LlmCritic>,
    earmark: Arc<Earmark>,
    learner: Arc<Learner>,
    metrics: Arc<Metrics>,
    budget: Budget,
    /// The last recall that was judged, by namespace: what got no label is not asked about again.
    seen: HashMap<String, String>,
    /// The recall over which the endpoint failed last, and how often, by namespace.
    failed: HashMap<String, (String, u32)>,
}

impl Rounds {
    /// Judges what is old enough; `false` if the endpoint should be left alone for a while.
    fn run(&mut self, ended: &Ended) -> bool {
        let names = self.earmark.namespaces().unwrap_or_default();
        let watched: Vec<String> = names.into_iter().filter(|name| self.watches(name)).collect();
        for name in watched {
            match self.namespace(&name, ended) {
                Ok(()) => (),
                Err(error) if error.kind() == ErrorKind::Upstream => {
                    tracing::warn!(%error, "the critic failed; it is asked again in a minute");
                    return false;
                }
                Err(error) => tracing::warn!(%error, "open recalls could not be looked up"),
            }
        }
        true
    }

    fn watches(&self, namespace: &str) -> bool {
        self.config.namespaces.iter().any(|name| name == "*" || name == namespace)
    }

    fn namespace(&mut self, name: &str, ended: &Ended) -> Result<()> {
        let memory = self.earmark.existing(name)?;
        let critic = self.critic.clone();
        loop {
            let after = self.seen.get(name).map(String::as_str);
            let open = memory.left_open(self.config.close_after, after, BATCH)?;
            if open.is_empty() {
                return Ok(());
            }
            for recall_id in open {
                if !self.budget.take(Instant::now()) || ended.after(Duration::ZERO) {
                    return Ok(());
                }
                let judged = memory.judge_open(&recall_id, &mut |question, shown| critic.judge(question, shown));
                match judged {
                    Ok(report) if report.closed => {
                        self.metrics.closed("critic");
                        self.learner.wake(name);
                    }
                    Err(error) if error.kind() == ErrorKind::Upstream => {
                        if self.failures(name, &recall_id) >= TRIES {
                            self.seen.insert(name.to_owned(), recall_id);
                        }
                        return Err(error);
                    }
                    // Closed or forgotten meanwhile, or no verdict.
                    _ => (),
                }
                self.seen.insert(name.to_owned(), recall_id);
            }
        }
    }
}

impl Rounds {
    /// How often the endpoint has now failed over this recall.
    fn failures(&mut self, name: &str, recall_id: &str) -> u32 {
        let failed = self.failed.entry(name.to_owned()).or_default();
        let before = if failed.0 == recall_id { failed.1 } else { 0 };
        *failed = (recall_id.to_owned(), before + 1);
        before + 1
    }
}

/// Calls that may be made: as many as a minute allows, and refilled as time passes.
struct Budget {
    a_minute: f64,
    left: f64,
    since: Instant,
}

impl Budget {
    fn new(a_minute: u32, now: Instant) -> Budget {
        Budget { a_minute: a_minute.into(), left: a_minute.into(), since: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        let refilled = now.duration_since(self.since).as_secs_f64() / 60.0 * self.a_minute;
        self.left = (self.left + refilled).min(self.a_minute);
        self.since = now;
        let has = self.left >= 1.0;
        self.left -= if has { 1.0 } else { 0.0 };
        has
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_refilled_by_time() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut budget = Budget::new(2, start);
        let taken = [0, 0, 0, 29, 30, 31, 3600, 3600, 3600].map(|seconds| budget.take(at(seconds)));
        assert_eq!(taken, [true, true, false, false, true, false, true, true, false]);
    }
}
