//! Models by name or folder: those of the library, and with the feature `models` the paper's large ones.

use anyhow::Result;
use earmark::encode::Encoder;

/// Scores texts for a query, higher for better.
pub type Scorer = Box<dyn Fn(&str, &[&str]) -> Result<Vec<f32>>>;

/// Opens an encoder.
///
/// # Errors
/// If it cannot be found or loaded; the message says what helps.
#[cfg(feature = "models")]
pub fn open(name: &str) -> Result<Box<dyn Encoder>> {
    Ok(earmark_models::open_encoder(name, &earmark_models::ModelOptions::default())?)
}

/// Opens an encoder.
///
/// # Errors
/// If it cannot be found or loaded; the message says what helps.
#[cfg(not(feature = "models"))]
pub fn open(name: &str) -> Result<Box<dyn Encoder>> {
    Ok(earmark::encode::open_local(name, &earmark::encode::LocalOptions::default())?)
}

/// Opens a reranker.
///
/// # Errors
/// If it cannot be found or loaded; the message says what helps.
#[cfg(feature = "models")]
pub fn open_reranker(name: &str) -> Result<Scorer> {
    let reranker = earmark_models::open_reranker(name)?;
    Ok(Box::new(move |query, texts| Ok(reranker.score(query, texts)?)))
}

/// Fails: rerankers come with the feature `models`.
///
/// # Errors
/// Always.
#[cfg(not(feature = "models"))]
pub fn open_reranker(name: &str) -> Result<Scorer> {
    anyhow::bail!(
        "{name}: this build is without rerankers; run `cargo run --release -p earmark-lab --features models -- ...`"
    )
}
