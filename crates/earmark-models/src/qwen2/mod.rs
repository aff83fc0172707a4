//! Encoders that grew out of Qwen2: Stella-en-1.5B and GTE-Qwen2.

mod config;
mod layers;

use std::path::Path;

use earmark::encode::{Encoder, Side};
use serde::Deserialize;

use self::config::Config;
use self::layers::Layers;
use crate::files::{Result, TokenizerConfig, check_vocabulary, read_json, read_tokenizer, told};
use crate::head::Head;
use crate::options::ModelOptions;
use crate::tokens::Tokens;
use crate::weights::Weights;

/// Most tokens of a window, whatever the model allows: the scores of one text are heads x tokens x tokens numbers.
const LONGEST_WINDOW: usize = 4096;

/// Most tokens that pass through the layers together; a longer window goes alone.
const BATCH_TOKENS: usize = 1024;

/// A Qwen2 encoder with its pooling, dense layer and prompts.
///
/// Texts longer than the model's window (at most 4096 tokens here) are cut into windows. The vector of such a text is
/// the mean of its windows' vectors, each weighted by its number of tokens; it is normalized when the model
/// normalizes. What else is in a call moves the vector of a text by rounding only.
pub struct Qwen2Encoder {
    model: String,
    tokens: Tokens,
    layers: Layers,
    head: Head,
}

/// A piece of a text.
struct Window {
    text: usize,
    ids: Vec<u32>,
    weight: f32,
}

impl Qwen2Encoder {
    /// Loads a model from a folder with `config.json`, `tokenizer.json`, `modules.json` and the files it names, and
    /// the weights. Attention is in both directions unless `config.json` has `"is_causal": true`.
    ///
    /// # Errors
    /// [`earmark::Error::Encoder`] when a file is missing or broken, or the model is of another kind.
    pub fn from_folder(model: &str, folder: &Path, options: &ModelOptions) -> earmark::Result<Self> {
        load(model, folder, options).map_err(|reason| earmark::Error::Encoder { model: model.to_owned(), reason })
    }

    fn windows(&self, texts: &[&str], side: Side) -> Result<Vec<Window>> {
        let prefix = match side {
            Side::Query => &self.head.query_prefix,
            Side::Memory => &self.head.memory_prefix,
        };
        let mut all = Vec::new();
        for (text, content) in texts.iter().enumerate() {
            let windows = self.tokens.windows(&format!("{prefix}{content}"))?;
            all.extend(windows.into_iter().map(|(ids, tokens)| Window { text, ids, weight: tokens.max(1) as f32 }));
        }
        Ok(all)
    }

    fn encode_here(&self, texts: &[&str], side: Side) -> Result<Vec<Vec<f32>>> {
        let mut windows = self.windows(texts, side)?;
        windows.sort_by_key(|window| std::cmp::Reverse(window.ids.len()));
        let mut sums = vec![vec![0.0; self.dimension()]; texts.len()];
        let mut weights = vec![0.0; texts.len()];
        for batch in batches(&windows) {
            let ids: Vec<&[u32]> = batch.iter().map(|window| window.ids.as_slice()).collect();
            for (window, states) in batch.iter().zip(self.layers.run(&ids).map_err(told)?) {
                let vector = self.head.vector(&states).map_err(told)?;
                let sum = &mut sums[window.text];
                sum.iter_mut().zip(&vector).for_each(|(sum, value)| *sum += window.weight * value);
                weights[window.text] += window.weight;
            }
        }
        for (sum, weight) in sums.iter_mut().zip(&weights) {
            sum.iter_mut().for_each(|value| *value /= weight);
            self.head.finish(sum);
        }
        Ok(sums)
    }
}

impl Encoder for Qwen2Encoder {
    fn model(&self) -> &str {
        &self.model
    }

    fn dimension(&self) -> usize {
        self.head.dimension(self.layers.hidden())
    }

    fn encode(&self, texts: &[&str], side: Side) -> earmark::Result<Vec<Vec<f32>>> {
        let error = |reason| earmark::Error::Encoder { model: self.model.clone(), reason };
        self.encode_here(texts, side).map_err(error)
    }
}

fn load(model: &str, folder: &Path, options: &ModelOptions) -> Result<Qwen2Encoder> {
    let config = Config::read(folder)?;
    let head = Head::read(folder, config.hidden_size, options)?;
    let tokenizer = read_tokenizer(folder)?;
    check_vocabulary(&tokenizer, config.vocab_size)?;
    let tokenizer_config = TokenizerConfig::read(folder)?;
    let window = window(folder, &config, &tokenizer_config)?;
    let tokens = Tokens::new(tokenizer, &tokenizer_config, window)?;
    let layers = Layers::read(&mut Weights::read(folder, options.bfloat16)?, config)?;
    Ok(Qwen2Encoder { model: model.to_owned(), tokens, layers, head })
}

/// Most tokens of a window: what sentence-transformers was told, else the tokenizer, within what the model allows.
fn window(folder: &Path, config: &Config, tokenizer: &TokenizerConfig) -> Result<usize> {
    #[derive(Default, Deserialize)]
    struct File {
        #[serde(default)]
        max_seq_length: Option<usize>,
    }
    let file: File = read_json(&folder.join("sentence_bert_config.json"))?.unwrap_or_default();
    let limit = config.max_position_embeddings.min(LONGEST_WINDOW);
    Ok(file.max_seq_length.or(tokenizer.window()).unwrap_or(limit).min(limit))
}

/// Cuts windows into runs of at most [`BATCH_TOKENS`] tokens, or of one window.
fn batches(windows: &[Window]) -> Vec<&[Window]> {
    let mut batches = Vec::new();
    let mut rest = windows;
    while !rest.is_empty() {
        let mut tokens = 0;
        let fits = rest.iter().take_while(|window| {
            tokens += window.ids.len();
            tokens <= BATCH_TOKENS
        });
        let (batch, after) = rest.split_at(fits.count().max(1));
        batches.push(batch);
        rest = after;
    }
    batches
}
