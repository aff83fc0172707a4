//! Models of the Hugging Face hub, in the cache that Python's tools share.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use hf_hub::api::sync::{ApiBuilder, ApiRepo};
use hf_hub::{Cache, CacheRepo};

use super::checkpoint::Result;

/// Files that a model may have; those that decide on pooling come before the weights, so that a cache with weights
/// has them all.
const SETTINGS: [&str; 6] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
];
const WEIGHTS: [&str; 2] = ["model.safetensors", "pytorch_model.bin"];

/// The folder of a model: from the cache, else downloaded into it. `HF_HOME`, `HF_ENDPOINT`, `HF_TOKEN` and
/// `HF_HUB_OFFLINE` mean what they mean in Python.
pub(super) fn fetch(name: &str) -> Result<PathBuf> {
    let cache = Cache::from_env().model(name.to_owned());
    if let Some(folder) = cached(&cache) {
        return Ok(folder);
    }
    if is_on(std::env::var("HF_HUB_OFFLINE").ok().as_deref()) {
        return Err(format!("{name} is not in the hub cache, and HF_HUB_OFFLINE forbids to download it"));
    }
    let mut builder = ApiBuilder::from_env().with_progress(std::io::stderr().is_terminal());
    if let Ok(token) = std::env::var("HF_TOKEN") {
        builder = builder.with_token(Some(token).filter(|token| !token.is_empty()));
    }
    let api = builder.build().map_err(|error| error.to_string())?;
    download(&api.model(name.to_owned()))
        .map_err(|error| format!("{name} could not be downloaded from the hub: {error}"))
}

/// The folder when configuration, tokenizer and weights are in the cache.
fn cached(cache: &CacheRepo) -> Option<PathBuf> {
    let config = cache.get("config.json")?;
    cache.get("tokenizer.json")?;
    WEIGHTS.iter().find_map(|name| cache.get(name))?;
    config.parent().map(Path::to_owned)
}

fn download(repo: &ApiRepo) -> Result<PathBuf> {
    let files = repo.info().map_err(|error| error.to_string())?.siblings;
    let has = |name: &str| files.iter().any(|file| file.rfilename == name);
    let pooling =
        files.iter().map(|file| file.rfilename.as_str()).filter(|name| name.ends_with("_Pooling/config.json"));
    let weights = WEIGHTS.into_iter().find(|name| has(name));
    let weights = weights.ok_or("it has neither model.safetensors nor pytorch_model.bin")?;
    let settings = SETTINGS.into_iter().filter(|name| has(name));
    let mut folder = None;
    for name in pooling.chain(settings).chain([weights]) {
        let path = repo.get(name).map_err(|error| format!("{name}: {error}"))?;
        if name == "config.json" {
            folder = path.parent().map(Path::to_owned);
        }
    }
    folder.ok_or_else(|| "it has no config.json".into())
}

/// Whether an environment variable is set to something that means yes.
fn is_on(value: Option<&str>) -> bool {
    value.is_some_and(|value| ["1", "on", "yes", "true"].contains(&value.to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offline_values() {
        for (value, on) in
            [(None, false), (Some(""), false), (Some("0"), false), (Some("1"), true), (Some("True"), true)]
        {
            assert_eq!(is_on(value), on, "{value:?}");
        }
    }

    #[test]
    fn a_cache_without_weights_is_not_a_model() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().into()).model("some/model".into());
        let snapshot = folder.path().join("models--some--model/snapshots/abc");
        std::fs::create_dir_all(&snapshot).unwrap();
        std::fs::create_dir_all(folder.path().join("models--some--model/refs")).unwrap();
        std::fs::write(folder.path().join("models--some--model/refs/main"), "abc").unwrap();
        for name in ["config.json", "tokenizer.json"] {
            std::fs::write(snapshot.join(name), "{}").unwrap();
        }
        assert_eq!(cached(&cache), None);
        std::fs::write(snapshot.join("pytorch_model.bin"), "").unwrap();
        assert_eq!(cached(&cache), Some(snapshot));
    }
}
