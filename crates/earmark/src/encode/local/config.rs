//! What a model folder says about itself.

use std::path::Path;

use serde::Deserialize;

use super::checkpoint::Result;
use super::folder::{Module, Prefixes, read_json, read_pooling};

/// `config.json`, as far as an encoder needs it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ModelConfig {
    #[serde(default = "bert")]
    pub(super) model_type: String,
    pub(super) hidden_size: usize,
    pub(super) num_hidden_layers: usize,
    pub(super) num_attention_heads: usize,
    pub(super) intermediate_size: usize,
    pub(super) vocab_size: usize,
    pub(super) max_position_embeddings: usize,
    #[serde(default = "small_epsilon")]
    pub(super) layer_norm_eps: f32,
    #[serde(default)]
    pub(super) pad_token_id: Option<usize>,
    #[serde(default = "erf_gelu")]
    hidden_act: String,
    #[serde(default = "absolute")]
    position_embedding_type: String,
    #[serde(default = "buckets")]
    pub(super) relative_attention_num_buckets: usize,
}

fn bert() -> String {
    "bert".into()
}

fn small_epsilon() -> f32 {
    1e-12
}

fn erf_gelu() -> String {
    "gelu".into()
}

fn absolute() -> String {
    "absolute".into()
}

fn buckets() -> usize {
    32
}

impl ModelConfig {
    /// Reads `config.json` and refuses what the runtime cannot do.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let config: ModelConfig = read_json(&folder.join("config.json"))?
            .ok_or_else(|| format!("{} has no config.json", folder.display()))?;
        config.check().map_err(|reason| format!("{}: {reason}", folder.join("config.json").display()))?;
        Ok(config)
    }

    fn check(&self) -> Result<()> {
        let known = ["bert", "roberta", "xlm-roberta", "camembert", "mpnet"];
        if !known.contains(&self.model_type.as_str()) {
            let found = &self.model_type;
            return Err(format!("model_type `{found}` is not supported; supported are {}", known.join(", ")));
        }
        if self.hidden_act != "gelu" {
            return Err(format!("hidden_act `{}` is not supported, only `gelu`", self.hidden_act));
        }
        if self.position_embedding_type != "absolute" {
            return Err(format!("position_embedding_type `{}` is not supported", self.position_embedding_type));
        }
        if self.num_attention_heads == 0 || !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return Err("hidden_size has to be a multiple of num_attention_heads".into());
        }
        match self.position_limit() {
            Some(limit) if limit > 2 => Ok(()),
            _ => Err("max_position_embeddings leaves no room for a text".into()),
        }
    }

    /// Position of the first token: families that grew out of RoBERTa count from behind the padding id.
    pub(super) fn first_position(&self) -> usize {
        match self.model_type.as_str() {
            "bert" => 0,
            _ => self.pad_token_id.unwrap_or(1) + 1,
        }
    }

    /// Most tokens of one text.
    fn position_limit(&self) -> Option<usize> {
        self.max_position_embeddings.checked_sub(self.first_position())
    }
}

/// How token vectors become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pooling {
    /// Mean over all tokens, special ones included.
    Mean,
    /// The first token.
    Cls,
}

const POOLINGS: [(&str, Pooling); 2] = [("mean", Pooling::Mean), ("cls", Pooling::Cls)];

/// What the files of sentence-transformers add; without them the mean is taken and not normalized.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Head {
    pub(super) pooling: Pooling,
    pub(super) normalize: bool,
    /// Most tokens of one window, special ones included.
    pub(super) window: usize,
    pub(super) prefixes: Prefixes,
}

impl Head {
    /// Reads `modules.json` and the files it names.
    pub(super) fn read(folder: &Path, config: &ModelConfig) -> Result<Self> {
        let modules: Vec<Module> = read_json(&folder.join("modules.json"))?.unwrap_or_default();
        let mut head = Head {
            pooling: Pooling::Mean,
            normalize: false,
            window: read_window(folder, config)?,
            prefixes: Prefixes::read(folder, &["query"])?,
        };
        for module in &modules {
            match module.kind() {
                "Transformer" => {}
                "Pooling" => head.pooling = read_pooling(&folder.join(&module.path).join("config.json"), &POOLINGS)?,
                "Normalize" => head.normalize = true,
                other => {
                    return Err(format!(
                        "{}: module `{other}` is not supported",
                        folder.join("modules.json").display()
                    ));
                }
            }
        }
        Ok(head)
    }
}

#[derive(Default, Deserialize)]
struct WindowFile {
    #[serde(default)]
    max_seq_length: Option<usize>,
    #[serde(default)]
    model_max_length: Option<f64>,
}

/// The window of the sentence-transformers file, else of the tokenizer file, else as many tokens as have a position.
fn read_window(folder: &Path, config: &ModelConfig) -> Result<usize> {
    let limit = config.position_limit().unwrap_or_default();
    let own: WindowFile = read_json(&folder.join("sentence_bert_config.json"))?.unwrap_or_default();
    let tokenizer: WindowFile = read_json(&folder.join("tokenizer_config.json"))?.unwrap_or_default();
    let window = own.max_seq_length.or(tokenizer.model_max_length.map(|length| length as usize));
    Ok(window.filter(|window| *window > 2).unwrap_or(limit).min(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"{"model_type": "TYPE", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 16, "vocab_size": 30, "max_position_embeddings": 514, "pad_token_id": 1}"#;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    fn head(files: &[(&str, &str)]) -> Result<Head> {
        let folder = folder(files);
        Head::read(folder.path(), &ModelConfig::read(folder.path())?)
    }

    #[test]
    fn without_further_files_the_mean_is_not_normalized() {
        let head = head(&[("config.json", &CONFIG.replace("TYPE", "xlm-roberta"))]).unwrap();
        assert_eq!((head.pooling, head.normalize, head.window), (Pooling::Mean, false, 512));
    }

    #[test]
    fn sentence_transformers_files_are_followed() {
        let modules = r#"[{"path": "", "type": "sentence_transformers.models.Transformer"},
            {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]"#;
        let head = head(&[
            ("config.json", &CONFIG.replace("TYPE", "bert")),
            ("modules.json", modules),
            ("1_Pooling/config.json", r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#),
            ("sentence_bert_config.json", r#"{"max_seq_length": 256}"#),
            ("config_sentence_transformers.json", r#"{"prompts": {"query": "ask: ", "passage": "text: "}}"#),
        ]);
        let expected = Head {
            pooling: Pooling::Cls,
            normalize: true,
            window: 256,
            prefixes: Prefixes { query: "ask: ".into(), memory: "text: ".into() },
        };
        assert_eq!(head, Ok(expected));
    }

    #[test]
    fn what_the_runtime_cannot_do_is_refused() {
        let modules = r#"[{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]"#;
        let bert = CONFIG.replace("TYPE", "bert");
        for (files, expected) in [
            (vec![("config.json", CONFIG.replace("TYPE", "t5"))], "model_type `t5` is not supported"),
            (vec![("config.json", bert.replace("\"pad", "\"hidden_act\": \"relu\", \"pad"))], "hidden_act `relu`"),
            (vec![("config.json", bert.clone()), ("modules.json", modules.into())], "module `Dense`"),
            (vec![("config.json", "{".into())], "config.json: EOF"),
            (vec![], "has no config.json"),
        ] {
            let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
            let message = head(&files).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
