//! Text to vectors.

#[cfg(feature = "cache")]
mod cache;
#[cfg(feature = "local")]
mod local;
#[cfg(feature = "cache")]
mod map;
#[cfg(feature = "remote")]
mod remote;

#[cfg(feature = "cache")]
pub use cache::{EmbeddingCache, Precision, encode_all};
#[cfg(feature = "local")]
pub use local::{Local, LocalOptions, StaticVectors, find_model, open_local, parts};
#[cfg(feature = "remote")]
pub use remote::{Remote, RemoteOptions};

use crate::error::Result;

/// Which side of a search a text stands on; some models want a different prefix for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What is asked.
    Query,
    /// What is stored.
    Memory,
}

/// Turns texts into vectors. A frozen model: equal texts give equal vectors, whatever else is in the batch.
pub trait Encoder: Send + Sync {
    /// Name that identifies the vector space, for example `all-MiniLM-L6-v2`; stamped on each namespace.
    fn model(&self) -> &str;

    /// Dimension `d` of the vectors.
    fn dimension(&self) -> usize;

    /// One vector `[d]` a text, in the order of `texts`. Texts longer than the model's window are cut into
    /// chunks whose vectors are pooled; nothing is refused for its length.
    ///
    /// # Errors
    /// [`Error::Encoder`](crate::Error::Encoder) or [`Error::Remote`](crate::Error::Remote); then no vector is returned.
    fn encode(&self, texts: &[&str], side: Side) -> Result<Vec<Vec<f32>>>;
}
