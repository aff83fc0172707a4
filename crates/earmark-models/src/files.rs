//! The small files of a model folder.

use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokenizers::Tokenizer;

/// What goes wrong is told in words; the caller adds the model's name.
pub(crate) type Result<T, E = String> = std::result::Result<T, E>;

/// An error in words.
pub(crate) fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A JSON file, or nothing when it is not there.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    serde_json::from_str(&text).map(Some).map_err(|error| format!("{}: {error}", path.display()))
}

/// A JSON file that has to be there.
pub(crate) fn need_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    read_json(path)?.ok_or_else(|| format!("{} is missing; download the whole folder of the model", path.display()))
}

/// `model_type` of a folder's `config.json`, if it says one.
pub(crate) fn model_type(folder: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        model_type: String,
    }
    read_json::<Named>(&folder.join("config.json")).ok().flatten().map(|config| config.model_type)
}

/// `tokenizer.json` of a folder, without the padding and truncation that it may ask for.
pub(crate) fn read_tokenizer(folder: &Path) -> Result<Tokenizer> {
    let path = folder.join("tokenizer.json");
    if !path.is_file() {
        return Err(format!("{} is missing; save the tokenizer in its fast form", path.display()));
    }
    let mut tokenizer = Tokenizer::from_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    tokenizer.with_padding(None);
    tokenizer.with_truncation(None).map_err(told)?;
    Ok(tokenizer)
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
    /// Whether the model's own code puts the end token behind every text.
    #[serde(default)]
    pub(crate) add_eos_token: bool,
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

    /// The end token's text.
    pub(crate) fn end_token(&self) -> Option<&str> {
        self.eos_token.as_ref().map(|token| match token {
            SpecialToken::Plain(content) | SpecialToken::Detailed { content } => content.as_str(),
        })
    }

    /// Most tokens of a text; nothing where the file has a number that stands for "no limit".
    pub(crate) fn window(&self) -> Option<usize> {
        self.model_max_length.filter(|length| *length >= 1.0 && *length < 1e9).map(|length| length as usize)
    }
}
