//! Encoders that grew out of Qwen2: Stella-en-1.5B and GTE-Qwen2.

mod config;
mod layers;

use std::path::Path;

use earmark::encode::parts::{Window, Windows, batches, read_json, read_tokenizer};
use earmark::encode::{Encoder, Side};
use serde::Deserialize;

use self::config::Config;
use self::layers::Layers;
use crate::files::{Result, TokenizerConfig, check_vocabulary, told};
use crate::head::Head;
use crate::options::ModelOptions;
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
    windows: Windows,
    layers: Layers,
    head: Head,
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

    fn windows_of(&self, texts: &[&str], side: Side) -> Result<Vec<Window>> {
        let prefix = self.head.prefixes.of(side);
        let mut all = Vec::new();
        for (position, text) in texts.iter().enumerate() {
            all.extend(self.windows.of(position, &format!("{prefix}{text}"))?);
        }
        // The layers need a token, even of a text that has none.
        all.iter_mut().filter(|window| window.ids.is_empty()).for_each(|window| window.ids.push(0));
        Ok(all)
    }

    fn encode_here(&self, texts: &[&str], side: Side) -> Result<Vec<Vec<f32>>> {
        let mut windows = self.windows_of(texts, side)?;
        windows.sort_by_key(|window| std::cmp::Reverse(window.ids.len()));
        let mut sums = vec![vec![0.0; self.dimension()]; texts.len()];
        let mut weights = vec![0.0; texts.len()];
        for batch in batches(&windows, BATCH_TOKENS) {
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
    let end = tokenizer_config.end(&tokenizer)?;
    let windows = Windows::new(tokenizer, end, window)?;
    let layers = Layers::read(&mut Weights::read(folder, options.bfloat16)?, config)?;
    Ok(Qwen2Encoder { model: model.to_owned(), windows, layers, head })
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
