//! Flags, variables and the config file become one resolved set of settings.

use std::path::{Path, PathBuf};

use config::{Config, Environment, File, FileFormat};
use directories::ProjectDirs;
use earmark::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::args::Global;

/// The config file's form; every field may be left out. `EARMARK_ENCODER__URL` sets `encoder.url`, and so on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ConfigFile {
    /// Folder of the data.
    pub(crate) data_dir: Option<PathBuf>,
    /// The namespace used when none is named.
    pub(crate) namespace: Option<String>,
    /// `default` or `paper`.
    pub(crate) recipe: Option<String>,
    /// Who turns text into vectors.
    pub(crate) encoder: EncoderConfig,
}

/// Who turns text into vectors.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct EncoderConfig {
    /// Model name, or a folder.
    pub(crate) model: Option<String>,
    /// Base address of an OpenAI-compatible endpoint; if set, texts are sent there.
    pub(crate) url: Option<String>,
    /// Name of the environment variable that holds the endpoint's key.
    pub(crate) key_env: Option<String>,
    /// Dimension of the endpoint's vectors; it is asked if not set.
    pub(crate) dimension: Option<usize>,
    /// Threads of a local encoder; all cores if not set.
    pub(crate) threads: Option<usize>,
}

/// What a command runs with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Settings {
    pub(crate) data_dir: PathBuf,
    pub(crate) namespace: String,
    pub(crate) recipe: String,
    pub(crate) encoder: EncoderConfig,
    pub(crate) config_file: Option<PathBuf>,
    #[serde(skip)]
    pub(crate) json: bool,
    #[serde(skip)]
    pub(crate) quiet: bool,
}

/// Resolves flags over variables over the config file over defaults.
pub(crate) fn resolve(flags: &Global) -> Result<Settings> {
    let file = config_path(flags)?;
    let read = read(file.as_deref())?;
    let encoder = EncoderConfig { model: flags.encoder.clone().or(read.encoder.model), ..read.encoder };
    let data_dir = flags.data_dir.clone().or(read.data_dir).map_or_else(default_data_dir, Ok)?;
    Ok(Settings {
        data_dir,
        namespace: flags.namespace.clone().or(read.namespace).unwrap_or_else(|| "default".to_owned()),
        recipe: flags.recipe.clone().or(read.recipe).unwrap_or_else(|| "default".to_owned()),
        encoder,
        config_file: file,
        json: flags.json,
        quiet: flags.quiet,
    })
}

fn read(file: Option<&Path>) -> Result<ConfigFile> {
    let mut builder = Config::builder();
    if let Some(file) = file {
        builder = builder.add_source(File::from(file).format(FileFormat::Toml));
    }
    let variables = Environment::with_prefix("EARMARK").prefix_separator("_").separator("__");
    let known = variables.source(Some(known_variables()));
    let read = builder.add_source(known.try_parsing(true)).build().and_then(Config::try_deserialize);
    read.map_err(|e| {
        let place = file.map_or("the environment".to_owned(), |f| f.display().to_string());
        Error::invalid("config", format!("({place}) cannot be used: {e}"))
    })
}

/// The `EARMARK_*` variables that are settings; the others (such as `EARMARK_MODELS`) belong to other parts.
fn known_variables() -> config::Map<String, String> {
    let ours = |name: &str| {
        let rest = name.strip_prefix("EARMARK_").unwrap_or_default();
        ["DATA_DIR", "NAMESPACE", "RECIPE"].contains(&rest) || rest.starts_with("ENCODER__")
    };
    let alias = std::env::var("EARMARK_ENCODER").ok().map(|model| ("EARMARK_ENCODER__MODEL".to_owned(), model));
    std::env::vars().filter(|(name, _)| ours(name)).chain(alias).collect()
}

fn config_path(flags: &Global) -> Result<Option<PathBuf>> {
    let named = flags.config.clone().or_else(|| std::env::var_os("EARMARK_CONFIG").map(PathBuf::from));
    match named {
        Some(file) if file.is_file() => Ok(Some(file)),
        Some(file) => Err(Error::invalid("config", format!("file {} does not exist", file.display()))),
        None => Ok(project_dirs().map(|dirs| dirs.config_dir().join("config.toml")).filter(|file| file.is_file())),
    }
}

fn default_data_dir() -> Result<PathBuf> {
    let missing = || Error::invalid("data_dir", "is not set, and this system names no home folder; give --data-dir");
    project_dirs().map(|dirs| dirs.data_dir().to_owned()).ok_or_else(missing)
}

fn project_dirs() -> Option<ProjectDirs> {
    ProjectDirs::from("", "", "earmark")
}
