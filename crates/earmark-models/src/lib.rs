//! The large encoders and the rerankers of the EAR paper, from folders in the formats of the Hugging Face hub.
//!
//! [`Qwen2Encoder`] is for Stella-en-1.5B and GTE-Qwen2 and implements Earmark's
//! [`Encoder`]; [`MonoT5`] and [`CrossEncoder`] score pairs of a query and a text behind
//! [`Reranker`]. [`open_encoder`] and [`open_reranker`] tell by `config.json` what a folder holds.
//! Everything runs on this machine's processor.

mod files;
mod head;
mod options;
mod qwen2;
mod rerank;
mod weights;

use earmark::encode::{Encoder, LocalOptions, find_model, open_local};

pub use options::ModelOptions;
pub use qwen2::Qwen2Encoder;
pub use rerank::{CrossEncoder, Error, MonoT5, Reranker, open_reranker};

/// Opens an encoder by name or folder: a Qwen2 model here, all others as [`open_local`] does.
///
/// # Errors
/// [`earmark::Error::Encoder`], which says what was tried and how to get the model.
///
/// # Example
/// ```no_run
/// use earmark::encode::Side;
/// use earmark_models::{ModelOptions, open_encoder};
///
/// let encoder = open_encoder("models/stella_en_1.5B_v5", &ModelOptions::default())?;
/// let vectors = encoder.encode(&["where is the spare key?"], Side::Query)?;
/// assert_eq!(vectors[0].len(), 1024);
/// # Ok::<(), earmark::Error>(())
/// ```
pub fn open_encoder(name: &str, options: &ModelOptions) -> earmark::Result<Box<dyn Encoder>> {
    let (model, folder) = find_model(name)?;
    match files::model_type(&folder).as_deref() {
        Some("qwen2") => Ok(Box::new(Qwen2Encoder::from_folder(&model, &folder, options)?)),
        _ => {
            let ModelOptions { query_prefix, memory_prefix, .. } = options.clone();
            open_local(name, &LocalOptions { query_prefix, memory_prefix, ..Default::default() })
        }
    }
}
