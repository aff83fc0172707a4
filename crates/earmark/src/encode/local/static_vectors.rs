//! Encoders without layers: the vector of a text is the mean of its tokens' rows in a table.

use std::path::Path;

use tokenizers::Tokenizer;

use super::add_scaled;
use super::checkpoint::{self, Checkpoint};
use super::folder::read_json;
use super::tokens::read_tokenizer;
use crate::encode::{Encoder, Side};
use crate::error::{Error, Result};
use crate::vector;

/// Static token vectors (WordLlama, Model2Vec and the like): the mean of the rows of a text's tokens, special tokens
/// left out, scaled to unit length. Instant, and much weaker than a transformer. A text without any known token
/// gives the zero vector.
pub struct StaticVectors {
    model: String,
    tokenizer: Tokenizer,
    table: Vec<f32>,
    dimension: usize,
    /// Never counted: Model2Vec drops unknown words.
    unknown: Option<u32>,
}

impl StaticVectors {
    /// Loads `tokenizer.json` and the table of token vectors `[vocabulary x d]`, the only two-dimensional tensor
    /// of `model.safetensors`.
    ///
    /// # Errors
    /// [`Error::Encoder`] when a file is missing or broken.
    pub fn from_folder(model: &str, folder: &Path) -> Result<Self> {
        load(model, folder).map_err(|reason| Error::Encoder { model: model.to_owned(), reason })
    }

    /// Whether a folder holds static vectors: a model file without the layers of a transformer.
    pub(super) fn is_in(folder: &Path) -> bool {
        let kind = read_json::<serde_json::Map<String, serde_json::Value>>(&folder.join("config.json"));
        match kind {
            Ok(Some(config)) => config.get("model_type").is_some_and(|kind| kind == "model2vec"),
            Ok(None) => folder.join("model.safetensors").is_file(),
            Err(_) => false,
        }
    }

    fn encode_one(&self, text: &str) -> checkpoint::Result<Vec<f32>> {
        let encoding = self.tokenizer.encode_fast(text, false).map_err(|error| error.to_string())?;
        let mut sum = vec![0.0; self.dimension];
        for id in encoding.get_ids().iter().filter(|id| Some(**id) != self.unknown) {
            let row = *id as usize * self.dimension;
            if let Some(row) = self.table.get(row..row + self.dimension) {
                add_scaled(&mut sum, row, 1.0);
            }
        }
        vector::normalize(&mut sum);
        Ok(sum)
    }
}

impl Encoder for StaticVectors {
    fn model(&self) -> &str {
        &self.model
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn encode(&self, texts: &[&str], _side: Side) -> Result<Vec<Vec<f32>>> {
        let vectors = texts.iter().map(|text| self.encode_one(text)).collect::<checkpoint::Result<_>>();
        vectors.map_err(|reason| Error::Encoder { model: self.model.clone(), reason })
    }
}

fn load(model: &str, folder: &Path) -> checkpoint::Result<StaticVectors> {
    let file = Checkpoint::open(folder)?;
    let tables: Vec<&str> = file.names().filter(|name| file.shape(name).is_ok_and(|shape| shape.len() == 2)).collect();
    let [name] = tables[..] else {
        return Err(format!("{} holds {} tables, expected one table of token vectors", folder.display(), tables.len()));
    };
    let shape = file.shape(name)?;
    let (dimension, table) = (shape[1], file.read(name, shape)?);
    let tokenizer = read_tokenizer(folder)?;
    let unknown = tokenizer.token_to_id("[UNK]").filter(|_| folder.join("config.json").is_file());
    Ok(StaticVectors { model: model.to_owned(), tokenizer, table, dimension, unknown })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three words with two values each.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let tokenizer = r#"{"version": "1.0", "pre_tokenizer": {"type": "Whitespace"},
            "model": {"type": "WordLevel", "vocab": {"none": 0, "left": 1, "up": 2}, "unk_token": "none"}}"#;
        std::fs::write(folder.path().join("tokenizer.json"), tokenizer).unwrap();
        let values: Vec<u8> = [0.0f32, 0.0, -2.0, 0.0, 0.0, 2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![3, 2], &values).unwrap();
        let bytes = safetensors::serialize([("embedding.weight", view)], None).unwrap();
        std::fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
        folder
    }

    #[test]
    fn the_mean_of_the_rows_at_unit_length() {
        let folder = folder();
        assert!(StaticVectors::is_in(folder.path()));
        let encoder = StaticVectors::from_folder("words", folder.path()).unwrap();
        let vectors = encoder.encode(&["left", "left up", "", "other"], Side::Memory).unwrap();
        let half = std::f32::consts::FRAC_1_SQRT_2;
        assert_eq!(vectors, [[-1.0, 0.0], [-half, half], [0.0, 0.0], [0.0, 0.0]]);
    }
}
