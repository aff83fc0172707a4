//! Earmark is a long-term memory for LLM agents whose retrieval learns from feedback.

pub mod critic;
pub mod encode;
mod error;
mod filter;
#[cfg(feature = "remote")]
mod http;
pub mod learn;
mod params;
mod product;
pub mod random;
pub mod recall;
mod record;
pub mod vector;

pub use error::{Error, ErrorKind, Result};
pub use filter::Filter;
pub use params::{
    FinalSlate, Initialisation, LogProbability, Optimizer, Params, Probability, ReplaySampling, ReplayUnobserved,
    Similarity, TrainingSlate,
};
pub use record::{Memory, Metadata, NewMemory, Remembered, Scope};
