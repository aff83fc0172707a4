//! MonoT5: a T5 model that answers `true` or `false`.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use candle_core::{Device, Tensor};
use candle_nn::ops::log_softmax;
use candle_transformers::models::t5::{Config, T5ForConditionalGeneration};
use earmark::encode::parts::{need_json, read_tokenizer};
use tokenizers::Tokenizer;

use super::{Error, Reranker};
use crate::files::{Result, check_vocabulary, told};
use crate::weights::Weights;

/// Most tokens of a pair, as in training.
const WINDOW: usize = 512;

/// The last words of every input; they stay when a text is cut.
const TAIL: &str = "Relevant:";

/// A MonoT5 reranker. The score of a pair is the log-probability of `true` against `false` in the first step of
/// decoding, so it is below 0.
pub struct MonoT5 {
    name: String,
    tokenizer: Tokenizer,
    tail: Vec<u32>,
    /// Ids of `false` and `true`.
    answers: [u32; 2],
    start: u32,
    /// Brings candle's logits to those of T5.
    scale: f64,
    /// Behind a lock, for it keeps what it decoded.
    model: Mutex<T5ForConditionalGeneration>,
}

impl MonoT5 {
    /// Loads a model from a folder with `config.json`, `tokenizer.json` and the weights. The published folders have
    /// no `tokenizer.json`; that of the T5 of the same size and vocabulary belongs there.
    ///
    /// # Errors
    /// [`Error`] when a file is missing or broken, or the tokenizer does not know the two answers.
    pub fn from_folder(name: &str, folder: &Path) -> Result<Self, Error> {
        load(name, folder).map_err(|reason| Error { model: name.to_owned(), reason })
    }

    fn ids(&self, query: &str, text: &str) -> Result<Vec<u32>> {
        let input = format!("Query: {query} Document: {text} {TAIL}");
        let mut ids = self.tokenizer.encode_fast(input, true).map_err(told)?.get_ids().to_vec();
        if ids.len() > WINDOW {
            ids.truncate(WINDOW - self.tail.len());
            ids.extend(&self.tail);
        }
        Ok(ids)
    }

    fn score_pair(&self, model: &mut T5ForConditionalGeneration, ids: &[u32]) -> candle_core::Result<f32> {
        model.clear_kv_cache();
        let ids = Tensor::new(ids, &Device::Cpu)?.unsqueeze(0)?;
        let start = Tensor::new(&[[self.start]], &Device::Cpu)?;
        let logits = (model.forward(&ids, &start)?.squeeze(0)? * self.scale)?;
        let answers = logits.index_select(&Tensor::new(&self.answers, &Device::Cpu)?, 0)?;
        log_softmax(&answers, 0)?.get(1)?.to_scalar()
    }
}

impl Reranker for MonoT5 {
    fn score(&self, query: &str, texts: &[&str]) -> Result<Vec<f32>, Error> {
        let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pair = |text: &&str| self.score_pair(&mut model, &self.ids(query, text)?).map_err(told);
        let scores = texts.iter().map(&mut pair).collect::<Result<_>>();
        scores.map_err(|reason| Error { model: self.name.clone(), reason })
    }
}

fn load(name: &str, folder: &Path) -> Result<MonoT5> {
    let path = folder.join("config.json");
    let config: Config = need_json(&path)?;
    if !config.is_encoder_decoder {
        return Err(format!("{}: it is not a T5 with encoder and decoder", path.display()));
    }
    let tokenizer = read_tokenizer(folder)?;
    check_vocabulary(&tokenizer, config.vocab_size)?;
    let answer = |word: &str| {
        let id = tokenizer.token_to_id(word);
        id.ok_or_else(|| format!("tokenizer.json has no token `{word}`, with which MonoT5 answers"))
    };
    let answers = [answer("▁false")?, answer("▁true")?];
    let tail = tokenizer.encode_fast(TAIL, true).map_err(told)?.get_ids().to_vec();
    // Where input and output share their vectors, T5 divides by the root of d_model before the last product;
    // candle multiplies by it.
    let scale = if config.tie_word_embeddings { 1.0 / config.d_model as f64 } else { 1.0 };
    let start = config.decoder_start_token_id.unwrap_or(config.pad_token_id) as u32;
    let builder = Weights::read(folder, false)?.into_builder();
    let model = Mutex::new(T5ForConditionalGeneration::load(builder, &config).map_err(told)?);
    Ok(MonoT5 { name: name.to_owned(), tokenizer, tail, answers, start, scale, model })
}
