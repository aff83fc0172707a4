//! Earmark is a long-term memory for LLM agents whose retrieval learns from feedback.

pub mod encode;
mod error;
mod filter;
#[cfg(feature = "remote")]
mod http;
mod record;
pub mod vector;

pub use error::{Error, ErrorKind, Result};
pub use filter::Filter;
pub use record::{Memory, Metadata, NewMemory, Remembered, Scope};
