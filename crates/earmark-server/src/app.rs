//! What every request shares, and how the synchronous library is called from asynchronous code.

use std::{sync::Arc, time::Duration};

use axum::http::StatusCode;
use earmark::{Earmark, Error, Namespace, critic::LlmCritic};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
    time::timeout,
};

use crate::{
    config::{Config, CriticConfig},
    critic::Watch,
    keys::Keys,
    learner::Learner,
    metrics::Metrics,
    problem::Problem,
};

/// A running server, apart from its sockets. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Inner>);

struct Inner {
    earmark: Arc<Earmark>,
    config: Config,
    keys: Keys,
    learner: Arc<Learner>,
    critic: Option<Arc<LlmCritic>>,
    watch: Option<Watch>,
    metrics: Arc<Metrics>,
    permits: Arc<Semaphore>,
}

/// Whether a call makes a namespace that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// It is made.
    Create,
    /// It is not found; `default` is always there.
    Refuse,
}

impl App {
    /// Serves `earmark`, whose settings should leave learning to the server (`learn_at_once: false`).
    ///
    /// # Errors
    /// Those of the key file; [`Error::InvalidInput`] where a key is needed and there is none, or for a critic that
    /// cannot be called.
    pub fn new(earmark: Earmark, config: Config) -> earmark::Result<App> {
        let keys = Keys::open(&earmark.path())?;
        if config.needs_key() && keys.list()?.is_empty() {
            let reason = format!(
                "is {}, where a key is needed, and there is none yet; make one: earmark keys create --access admin",
                config.listen
            );
            return Err(Error::invalid("listen", reason));
        }
        let earmark = Arc::new(earmark);
        let metrics = Arc::new(Metrics::default());
        let learner = Arc::new(Learner::start(earmark.clone(), metrics.clone()));
        let open = |critic: &CriticConfig| LlmCritic::open(&critic.options).map(Arc::new);
        let critic = config.critic.as_ref().map(open).transpose()?;
        let watch = config.critic.as_ref().zip(critic.clone()).and_then(|(config, critic)| {
            Watch::start(config.clone(), critic, earmark.clone(), learner.clone(), metrics.clone())
        });
        let permits = Arc::new(Semaphore::new(config.concurrency));
        Ok(App(Arc::new(Inner { earmark, config, keys, learner, critic, watch, metrics, permits })))
    }

    /// Its limits and switches.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// The memory that it serves.
    pub fn earmark(&self) -> &Arc<Earmark> {
        &self.0.earmark
    }

    /// Who may call.
    pub fn keys(&self) -> &Keys {
        &self.0.keys
    }

    /// What it counts.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Who judges slates, if anybody.
    pub fn critic(&self) -> Option<&Arc<LlmCritic>> {
        self.0.critic.as_ref()
    }

    /// Learns from closed recalls of the namespace soon, in the background.
    pub fn learn_soon(&self, namespace: &str) {
        self.0.learner.wake(namespace);
    }

    /// Waits until the learning that was asked for is done. Nothing more is learned in the background then.
    pub fn finish(&self) {
        if let Some(watch) = &self.0.watch {
            watch.finish();
        }
        self.0.learner.finish();
    }

    /// Runs `work` on the namespace, off the asynchronous threads, within the limits of the configuration.
    ///
    /// # Errors
    /// What the library says; 503 if too much is going on, 504 if it takes too long.
    pub async fn with<T, F>(&self, namespace: String, missing: Missing, work: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: FnOnce(&Namespace) -> earmark::Result<T> + Send + 'static,
    {
        self.run(move |earmark| work(&*open(earmark, &namespace, missing)?)).await
    }

    /// As [`App::with`], for what concerns the whole data folder.
    ///
    /// # Errors
    /// As [`App::with`].
    pub async fn run<T, F>(&self, work: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: FnOnce(&Earmark) -> earmark::Result<T> + Send + 'static,
    {
        self.run_for(self.0.config.timeout, work).await
    }

    /// As [`App::with`], for what takes as long as it takes.
    ///
    /// # Errors
    /// As [`App::with`].
    pub async fn with_long<T, F>(&self, namespace: String, missing: Missing, work: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: FnOnce(&Namespace) -> earmark::Result<T> + Send + 'static,
    {
        const LONG: Duration = Duration::from_secs(24 * 3600);
        self.with_for(LONG, namespace, missing, work).await
    }

    /// As [`App::with`], with a limit of its own.
    ///
    /// # Errors
    /// As [`App::with`].
    pub async fn with_for<T, F>(
        &self,
        limit: Duration,
        namespace: String,
        missing: Missing,
        work: F,
    ) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: FnOnce(&Namespace) -> earmark::Result<T> + Send + 'static,
    {
        self.run_for(limit, move |earmark| work(&*open(earmark, &namespace, missing)?)).await
    }

    async fn run_for<T, F>(&self, limit: Duration, work: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: FnOnce(&Earmark) -> earmark::Result<T> + Send + 'static,
    {
        let permit = self.permit().await?;
        let earmark = self.0.earmark.clone();
        let span = tracing::Span::current();
        let task = spawn_blocking(move || {
            // Held to the end of the work, which goes on when its caller has left.
            let _permit = permit;
            span.in_scope(|| work(&earmark))
        });
        match timeout(limit, task).await {
            Err(_) => Err(too_slow()),
            Ok(Err(failed)) => Err(broke(&failed)),
            Ok(Ok(result)) => Ok(result?),
        }
    }

    /// A place among the calls at once.
    ///
    /// # Errors
    /// 503 if none is free in time.
    pub(crate) async fn permit(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let permit = timeout(self.0.config.timeout, self.0.permits.clone().acquire_owned()).await;
        permit.ok().and_then(Result::ok).ok_or_else(|| {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "too many calls are under way; try again")
        })
    }
}

/// Opens a namespace as [`Missing`] says.
pub(crate) fn open(earmark: &Earmark, name: &str, missing: Missing) -> earmark::Result<Arc<Namespace>> {
    match missing {
        Missing::Refuse if name != "default" => earmark.existing(name),
        _ => earmark.namespace(name),
    }
}

pub(crate) fn too_slow() -> Problem {
    let detail = "the call took too long; it goes on in the background, and what it writes will be there";
    Problem::new(StatusCode::GATEWAY_TIMEOUT, "timeout", detail)
}

fn broke(failed: &tokio::task::JoinError) -> Problem {
    tracing::error!(%failed, "a call broke off");
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the call broke off; the server's log says why")
}
