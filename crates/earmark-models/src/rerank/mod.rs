//! Scores of pairs of a query and a text.

mod cross_encoder;
mod mono_t5;

use earmark::encode::find_model;

pub use cross_encoder::CrossEncoder;
pub use mono_t5::MonoT5;

use crate::files;

/// A reranker cannot be loaded or run.
#[derive(Debug, thiserror::Error)]
#[error("reranker `{model}` cannot be used: {reason}")]
pub struct Error {
    /// Model name or folder.
    pub model: String,
    /// What is missing or broken, and what to do.
    pub reason: String,
}

/// Reads a query and a text together and says how well the text answers.
pub trait Reranker: Send + Sync {
    /// One score a text, in the order of `texts`, higher for better; only comparable for one query.
    /// Texts longer than the model's window are read from their start.
    ///
    /// # Errors
    /// [`Error`] when the model fails; then there is no score.
    fn score(&self, query: &str, texts: &[&str]) -> Result<Vec<f32>, Error>;
}

/// Opens a reranker by name or folder, looked for as by [`earmark::encode::open_local`]: a T5 model as [`MonoT5`],
/// a BERT classifier as [`CrossEncoder`].
///
/// # Errors
/// [`Error`], which says what was tried and how to get the model.
pub fn open_reranker(name: &str) -> Result<Box<dyn Reranker>, Error> {
    let error = |reason| Error { model: name.to_owned(), reason };
    let (model, folder) = find_model(name).map_err(|found| match found {
        earmark::Error::Encoder { reason, .. } => error(reason),
        other => error(other.to_string()),
    })?;
    match files::model_type(&folder).as_deref() {
        Some("t5") => Ok(Box::new(MonoT5::from_folder(&model, &folder)?)),
        Some("bert") => Ok(Box::new(CrossEncoder::from_folder(&model, &folder)?)),
        Some(other) => Err(error(format!("model_type `{other}` is not supported; supported are t5 and bert"))),
        None => Err(error(format!("{} has no config.json with a model_type", folder.display()))),
    }
}
