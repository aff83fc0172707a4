//! Models of the Hugging Face hub, in the cache that Python's tools share.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use hf_hub::api::sync::{ApiBuilder, ApiRepo};
use hf_hub::{Cache, CacheRepo};

use super::checkpoint::Result;
use super::folder::{Module, read_json};

/// Files that a model may have; they and what `modules.json` names come before the weights, so that a cache with
/// weights has them all.
const SETTINGS: [&str; 6] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
];
const WEIGHTS: [&str; 3] = ["model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"];

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
    let files: Vec<&str> = files.iter().map(|file| file.rfilename.as_str()).collect();
    let weights = WEIGHTS.into_iter().find(|name| files.contains(name));
    let weights = weights.ok_or("it has neither model.safetensors nor pytorch_model.bin")?;
    let get = |name: &str| repo.get(name).map_err(|error| format!("{name}: {error}"));
    let mut folder = None;
    let mut modules = Vec::new();
    for name in SETTINGS.into_iter().filter(|name| files.contains(name)) {
        let path = get(name)?;
        match name {
            "config.json" => folder = path.parent().map(Path::to_owned),
            "modules.json" => modules = module_folders(&path)?,
            _ => {}
        }
    }
    let shards = weights.ends_with(".index.json");
    let wanted = |name: &&str| is_part(name, &modules) || (shards && is_shard(name));
    // The file whose presence means that the model is whole comes last.
    for name in files.iter().copied().filter(wanted).chain([weights]) {
        get(name)?;
    }
    folder.ok_or_else(|| "it has no config.json".into())
}

/// The folders that `modules.json` names, for example `1_Pooling`.
fn module_folders(path: &Path) -> Result<Vec<String>> {
    let modules: Vec<Module> = read_json(path)?.unwrap_or_default();
    Ok(modules.into_iter().map(|module| module.path).filter(|path| !path.is_empty()).collect())
}

/// Whether a file is one of a module's: its settings, or its weights in the format that is safe to read.
fn is_part(name: &str, modules: &[String]) -> bool {
    let part = |module: &String| name.strip_prefix(module.as_str()).and_then(|rest| rest.strip_prefix('/'));
    modules.iter().filter_map(part).any(|file| ["config.json", "model.safetensors"].contains(&file))
}

/// Whether a file is one of several that hold a model's weights together.
fn is_shard(name: &str) -> bool {
    name.starts_with("model-") && name.ends_with(".safetensors")
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
    fn parts_of_a_model() {
        let modules = ["1_Pooling".to_owned(), "2_Dense_1024".to_owned()];
        for (name, part) in [
            ("1_Pooling/config.json", true),
            ("2_Dense_1024/model.safetensors", true),
            ("2_Dense_1024/pytorch_model.bin", false),
            ("2_Dense_256/model.safetensors", false),
            ("config.json", false),
        ] {
            assert_eq!(is_part(name, &modules), part, "{name}");
        }
        assert!(is_shard("model-00001-of-00007.safetensors") && !is_shard("model.safetensors"));
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
