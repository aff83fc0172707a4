//! The façade: [`Earmark`] is a data folder, [`Namespace`] one isolated memory in it with every verb.

mod critic;
mod explain;
mod feedback;
mod forget;
mod gather;
mod history;
mod inspect;
mod learning;
mod recall;
mod reembed;
mod remember;
mod status;
mod transfer;
mod update;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use jiff::Timestamp;

pub use explain::{ExplainedCandidate, ExplainedRound, Explanation, Neighbour};
pub use forget::Forget;
pub use history::PastRecall;
pub use inspect::Overview;
pub use recall::{Judge, MAX_CRITIC_CALLS, MAX_QUERY_BYTES, MAX_TOP_K};
pub use reembed::ReembedReport;
pub use remember::{MAX_CONTENT_BYTES, MAX_ITEMS, messages};
pub use status::{GateReport, GateState, LabelCounts, LearningStatus, LearningVersion};
pub use transfer::{Imported, Refused};
pub use update::Change;

use crate::{
    encode::{Encoder, Side},
    error::{Error, Result},
    params::Params,
    store::{DataFolder, EncoderStamp, Store},
    vector::normalize,
};
use learning::Learned;

/// How a data folder is used.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The recipe that ranks and learns.
    pub params: Params,
    /// Learn within `feedback`; `false` leaves it to calls of [`Namespace::learn`].
    pub learn_at_once: bool,
    /// Open recalls kept for late feedback; the oldest expire first.
    pub max_open_recalls: usize,
    /// Age at which an open recall expires.
    pub max_open_age: Duration,
    /// Seed of everything random; the same log and seed give the same learned state.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            params: Params::default(),
            learn_at_once: true,
            max_open_recalls: 10_000,
            max_open_age: Duration::from_secs(30 * 24 * 3600),
            seed: 0,
        }
    }
}

type EncoderLoader = dyn Fn() -> Result<Arc<dyn Encoder>> + Send + Sync;

/// A data folder with its namespaces, and the encoder that reads for them. Cheap to open: the encoder is loaded by
/// the first call that needs it.
pub struct Earmark {
    folder: DataFolder,
    shared: Arc<Shared>,
    open: Mutex<HashMap<String, Arc<Namespace>>>,
}

/// What every namespace of a folder uses.
struct Shared {
    settings: Settings,
    loader: Box<EncoderLoader>,
    encoder: OnceLock<Arc<dyn Encoder>>,
}

/// One isolated memory: its own texts, index, experiences and learned state. Shared by threads freely.
pub struct Namespace {
    name: String,
    store: Store,
    shared: Arc<Shared>,
    learned: Mutex<Arc<Learned>>,
    /// Held by whoever learns, so that recalls can rank with the old state meanwhile.
    learning: Mutex<()>,
    recalls_logged: AtomicU64,
}

impl Earmark {
    /// Opens (and creates) the data folder; `encoder` is called once, by the first call that needs vectors.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder cannot be written, [`Error::InvalidInput`] for unusable settings.
    pub fn open(
        path: impl AsRef<Path>,
        settings: Settings,
        encoder: impl Fn() -> Result<Arc<dyn Encoder>> + Send + Sync + 'static,
    ) -> Result<Earmark> {
        settings.params.check()?;
        let shared = Shared { settings, loader: Box::new(encoder), encoder: OnceLock::new() };
        Ok(Earmark { folder: DataFolder::open(path.as_ref())?, shared: Arc::new(shared), open: Mutex::default() })
    }

    /// Where the data lies.
    pub fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// The namespace `name`, created if there is none.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a name that is empty or over 128 bytes; storage errors.
    pub fn namespace(&self, name: &str) -> Result<Arc<Namespace>> {
        self.opened(name, true)
    }

    /// The namespace `name`, never created.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none; storage errors.
    pub fn existing(&self, name: &str) -> Result<Arc<Namespace>> {
        self.opened(name, false)
    }

    fn opened(&self, name: &str, create: bool) -> Result<Arc<Namespace>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(namespace) = open.get(name) {
            return Ok(namespace.clone());
        }
        let store = self.folder.open_namespace(name, create)?;
        let namespace = Arc::new(Namespace::new(name, store, self.shared.clone())?);
        open.insert(name.to_owned(), namespace.clone());
        Ok(namespace)
    }

    /// Names of all namespaces, sorted.
    ///
    /// # Errors
    /// Storage errors.
    pub fn namespaces(&self) -> Result<Vec<String>> {
        self.folder.namespaces()
    }

    /// Removes a namespace with everything in it; `false` if there was none.
    ///
    /// # Errors
    /// Storage errors.
    pub fn remove_namespace(&self, name: &str) -> Result<bool> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        self.folder.remove_namespace(name)
    }

    /// The encoder, loaded now if it was not.
    ///
    /// # Errors
    /// What the loader says.
    pub fn encoder(&self) -> Result<Arc<dyn Encoder>> {
        self.shared.encoder()
    }
}

impl Shared {
    fn encoder(&self) -> Result<Arc<dyn Encoder>> {
        if let Some(encoder) = self.encoder.get() {
            return Ok(encoder.clone());
        }
        let loaded = (self.loader)()?;
        Ok(self.encoder.get_or_init(|| loaded).clone())
    }
}

impl Namespace {
    fn new(name: &str, store: Store, shared: Arc<Shared>) -> Result<Namespace> {
        let learned = Mutex::new(Arc::new(Learned::load(&store, &shared.settings)?));
        let recalls_logged = AtomicU64::new(0);
        Ok(Namespace { name: name.to_owned(), store, shared, learned, learning: Mutex::default(), recalls_logged })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The storage under it, for inspection and repair.
    pub fn store(&self) -> &Store {
        &self.store
    }

    fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Unit vectors of `texts`, after making sure that the namespace belongs to this encoder.
    fn encode(&self, texts: &[String], side: Side) -> Result<Vec<Vec<f32>>> {
        let encoder = self.shared.encoder()?;
        self.store
            .stamp_encoder(&EncoderStamp { model: encoder.model().to_owned(), dimension: encoder.dimension() })?;
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut vectors = encoder.encode(&texts, side)?;
        for vector in &mut vectors {
            self.check_dimension(encoder.dimension(), vector.len())?;
            normalize(vector);
        }
        Ok(vectors)
    }

    fn check_dimension(&self, expected: usize, received: usize) -> Result<()> {
        if expected == received {
            return Ok(());
        }
        Err(Error::EncoderMismatch {
            namespace: self.name.clone(),
            expected: format!("{expected} dimensions"),
            received: format!("{received} dimensions"),
        })
    }
}

/// `prefix` and a UUID v7: unique, and sorted by time.
fn new_id(prefix: &str) -> String {
    format!("{prefix}_{}", uuid::Uuid::now_v7().simple())
}

fn now() -> Timestamp {
    Timestamp::now()
}
