//! BERT over both texts at once.

use std::path::Path;

use candle_core::{Device, Module, Tensor};
use candle_nn::{Linear, linear};
use candle_transformers::models::bert::{BertModel, Config};
use earmark::encode::parts::{need_json, read_tokenizer};
use tokenizers::{Tokenizer, TruncationParams, TruncationStrategy};

use super::{Error, Reranker};
use crate::files::{Result, TokenizerConfig, check_vocabulary, told};
use crate::weights::Weights;

/// A BERT classifier of one output; the score of a pair is its logit. A pair longer than the window loses tokens of
/// its longer part.
pub struct CrossEncoder {
    name: String,
    tokenizer: Tokenizer,
    bert: BertModel,
    pooler: Linear,
    classifier: Linear,
}

impl CrossEncoder {
    /// Loads a model from a folder with `config.json`, `tokenizer.json` and the weights.
    ///
    /// # Errors
    /// [`Error`] when a file is missing or broken, or the classifier has several outputs.
    pub fn from_folder(name: &str, folder: &Path) -> Result<Self, Error> {
        load(name, folder).map_err(|reason| Error { model: name.to_owned(), reason })
    }

    fn score_pair(&self, query: &str, text: &str) -> Result<f32> {
        let pair = self.tokenizer.encode((query, text), true).map_err(told)?;
        self.logit(pair.get_ids(), pair.get_type_ids()).map_err(told)
    }

    fn logit(&self, ids: &[u32], kinds: &[u32]) -> candle_core::Result<f32> {
        let row = |values: &[u32]| Tensor::new(values, &Device::Cpu)?.unsqueeze(0);
        let states = self.bert.forward(&row(ids)?, &row(kinds)?, None)?;
        let first = states.narrow(1, 0, 1)?.squeeze(1)?.contiguous()?;
        self.classifier.forward(&self.pooler.forward(&first)?.tanh()?)?.flatten_all()?.get(0)?.to_scalar()
    }
}

impl Reranker for CrossEncoder {
    fn score(&self, query: &str, texts: &[&str]) -> Result<Vec<f32>, Error> {
        let scores = texts.iter().map(|text| self.score_pair(query, text)).collect::<Result<_>>();
        scores.map_err(|reason| Error { model: self.name.clone(), reason })
    }
}

fn load(name: &str, folder: &Path) -> Result<CrossEncoder> {
    let config: Config = need_json(&folder.join("config.json"))?;
    let mut tokenizer = read_tokenizer(folder)?;
    check_vocabulary(&tokenizer, config.vocab_size)?;
    let window = TokenizerConfig::read(folder)?.window().unwrap_or(usize::MAX).min(config.max_position_embeddings);
    let truncation =
        TruncationParams { max_length: window, strategy: TruncationStrategy::LongestFirst, ..Default::default() };
    tokenizer.with_truncation(Some(truncation)).map_err(told)?;
    let builder = Weights::read(folder, false)?.into_builder();
    let hidden = config.hidden_size;
    Ok(CrossEncoder {
        name: name.to_owned(),
        tokenizer,
        pooler: linear(hidden, hidden, builder.pp("bert.pooler.dense")).map_err(told)?,
        classifier: linear(hidden, 1, builder.pp("classifier")).map_err(told)?,
        bert: BertModel::load(builder, &config).map_err(told)?,
    })
}
