//! The small files of a model folder.

use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::checkpoint::Result;
use crate::encode::Side;

/// A JSON file, or nothing when it is not there.
///
/// # Errors
/// Names the file when it cannot be read or is not what was expected.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    serde_json::from_str(&text).map(Some).map_err(|error| format!("{}: {error}", path.display()))
}

/// A JSON file that has to be there.
///
/// # Errors
/// As [`read_json`], and when it is missing.
pub fn need_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    read_json(path)?.ok_or_else(|| format!("{} is missing; download the whole folder of the model", path.display()))
}

/// A line of `modules.json`.
#[derive(Debug, Clone, Deserialize)]
pub struct Module {
    /// The module's own folder, within that of the model.
    #[serde(default)]
    pub path: String,
    #[serde(rename = "type")]
    class: String,
}

impl Module {
    /// What it is, without the names of Python's packages: `Transformer`, `Pooling`, `Dense`, `Normalize`.
    pub fn kind(&self) -> &str {
        self.class.rsplit('.').next().unwrap_or_default()
    }
}

/// The pooling that the `config.json` of a pooling module names, out of those that a runtime `knows`:
/// `mean`, `cls`, `lasttoken`.
///
/// # Errors
/// When the file is missing or broken, or names none of these, or several.
pub fn read_pooling<P: Copy>(path: &Path, knows: &[(&str, P)]) -> Result<P> {
    let file: serde_json::Map<String, serde_json::Value> = need_json(path)?;
    let newer = file.get("pooling_mode").and_then(|mode| mode.as_str());
    let on = file.iter().filter(|(_, value)| **value == true).filter_map(|(key, _)| key.strip_prefix("pooling_mode_"));
    let modes: Vec<&str> = newer.into_iter().chain(on).collect();
    let is =
        |mode: &str, name: &str| mode.strip_prefix(name).is_some_and(|rest| ["", "_token", "_tokens"].contains(&rest));
    let found = match modes[..] {
        [mode] => knows.iter().find(|(name, _)| is(mode, name)),
        _ => None,
    };
    found.map(|(_, pooling)| *pooling).ok_or_else(|| {
        let names: Vec<&str> = knows.iter().map(|(name, _)| *name).collect();
        format!("{}: pooling {modes:?} is not supported, only {}", path.display(), names.join(" or "))
    })
}

/// What is put before the texts of each side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prefixes {
    /// Put before every query.
    pub query: String,
    /// Put before every memory.
    pub memory: String,
}

#[derive(Default, Deserialize)]
struct PromptFile {
    #[serde(default)]
    prompts: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    default_prompt_name: Option<String>,
}

impl Prefixes {
    /// Those of `config_sentence_transformers.json` in a folder, empty without one. `query` are the names that the
    /// prompt of queries may have, best first; the file's default prompt serves where no name is found.
    ///
    /// # Errors
    /// When the file is broken.
    pub fn read(folder: &Path, query: &[&str]) -> Result<Self> {
        let file: PromptFile = read_json(&folder.join("config_sentence_transformers.json"))?.unwrap_or_default();
        let default = file.default_prompt_name.as_deref().unwrap_or_default();
        let find = |names: &[&str]| {
            let prompt = names.iter().chain([&default]).find_map(|name| file.prompts.get(*name)?.as_str());
            prompt.unwrap_or_default().to_owned()
        };
        Ok(Prefixes { query: find(query), memory: find(&["document", "passage", "corpus"]) })
    }

    /// The same with what a caller sets instead.
    #[must_use]
    pub fn with(self, query: &Option<String>, memory: &Option<String>) -> Self {
        Prefixes { query: query.clone().unwrap_or(self.query), memory: memory.clone().unwrap_or(self.memory) }
    }

    /// Of one side.
    pub fn of(&self, side: Side) -> &str {
        match side {
            Side::Query => &self.query,
            Side::Memory => &self.memory,
        }
    }
}
