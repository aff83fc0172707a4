//! The small files of a model folder.

use std::path::Path;

use earmark::encode::parts::read_json;
use serde::Deserialize;
use tokenizers::Tokenizer;

/// What goes wrong is told in words; the caller adds the model's name.
pub(crate) type Result<T, E = String> = std::result::Result<T, E>;

/// An error in words.
pub(crate) fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// `model_type` of a folder's `config.json`, if it says one.
pub(crate) fn model_type(folder: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        model_type: String,
    }
    read_json::<Named>(&folder.join("config.json")).ok().flatten().map(|config| config.model_type)
}

/// Fails when the tokenizer knows tokens that the model has no vector for.
pub(crate) fn check_vocabulary(tokenizer: &Tokenizer, known: usize) -> Result<()> {
    let largest = tokenizer.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1);
    if largest > known {
        return Err(format!(
            "tokenizer.json has ids up to {largest}, but config.json only {known}; they do not belong together"
        ));
    }
    Ok(())
}

/// What `tokenizer_config.json` adds; other fields are not read.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct TokenizerConfig {
    #[serde(default)]
    add_eos_token: bool,
    #[serde(default)]
    eos_token: Option<SpecialToken>,
    #[serde(default)]
    model_max_length: Option<f64>,
}

/// A special token, in either of the forms in use.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum SpecialToken {
    Plain(String),
    Detailed { content: String },
}

impl TokenizerConfig {
    /// Of a folder; empty where there is no file.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        Ok(read_json(&folder.join("tokenizer_config.json"))?.unwrap_or_default())
    }

    /// The end token, where the model's own code puts it behind every text.
    pub(crate) fn end(&self, tokenizer: &Tokenizer) -> Result<Option<u32>> {
        if !self.add_eos_token {
            return Ok(None);
        }
        let end = self.end_token().and_then(|token| tokenizer.token_to_id(token));
        let missing = "tokenizer_config.json asks for an end token that tokenizer.json does not have";
        end.map(Some).ok_or_else(|| missing.to_owned())
    }

    fn end_token(&self) -> Option<&str> {
        self.eos_token.as_ref().map(|token| match token {
            SpecialToken::Plain(content) | SpecialToken::Detailed { content } => content.as_str(),
        })
    }

    /// Most tokens of a text; nothing where the file has a number that stands for "no limit".
    pub(crate) fn window(&self) -> Option<usize> {
        self.model_max_length.filter(|length| *length >= 1.0 && *length < 1e9).map(|length| length as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_token_has_to_be_known() {
        let tokenizer =
            r#"{"version": "1.0", "model": {"type": "WordLevel", "vocab": {"-": 0, ">": 2}, "unk_token": "-"}}"#;
        let tokenizer: Tokenizer = tokenizer.parse().unwrap();
        for (config, expected) in [
            ("{}", Some(None)),
            (r#"{"add_eos_token": true, "eos_token": ">"}"#, Some(Some(2))),
            (r#"{"add_eos_token": true, "eos_token": {"content": ">", "lstrip": false}}"#, Some(Some(2))),
            (r#"{"add_eos_token": true, "eos_token": "?"}"#, None),
            (r#"{"add_eos_token": true}"#, None),
        ] {
            let config: TokenizerConfig = serde_json::from_str(config).unwrap();
            assert_eq!(config.end(&tokenizer).ok(), expected, "{config:?}");
        }
    }
}
