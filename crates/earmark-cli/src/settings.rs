//! Flags, variables and the config file become one resolved set of settings.

use std::path::{Path, PathBuf};

use config::{Config, Environment, File, FileFormat};
use directories::{BaseDirs, ProjectDirs};
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
    /// How `serve` listens.
    pub(crate) server: ServerConfig,
    /// Who judges slates.
    pub(crate) critic: CriticConfig,
    /// What `proxy` stands in front of.
    pub(crate) proxy: ProxyConfig,
}

/// What `proxy` stands in front of; its flags say it too.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ProxyConfig {
    /// Base address of the model endpoint.
    pub(crate) upstream: Option<String>,
    /// Address and port to listen on.
    pub(crate) listen: Option<String>,
}

/// Who judges slates: an OpenAI-compatible chat endpoint. Without an address there is none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CriticConfig {
    /// Base address; questions and memories are sent there.
    pub(crate) url: Option<String>,
    /// The model's name.
    pub(crate) model: Option<String>,
    /// Name of the environment variable that holds the key; `EARMARK_CRITIC_KEY` if not set.
    pub(crate) key_env: Option<String>,
    /// Namespaces whose open recalls a server lets it close; `*` is every one.
    pub(crate) namespaces: Vec<String>,
    /// Age in seconds at which it closes them.
    pub(crate) close_after: Option<u64>,
    /// Most calls a minute for that.
    pub(crate) calls_a_minute: Option<u32>,
}

/// How `serve` listens; its flags say it too.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ServerConfig {
    /// Address and port.
    pub(crate) listen: Option<String>,
    /// Ask for a key on this machine too.
    pub(crate) require_key: bool,
    /// Names under which it may be addressed.
    pub(crate) allowed_hosts: Vec<String>,
    /// Largest request body in bytes.
    pub(crate) max_body: Option<usize>,
    /// Longest time in seconds for a request.
    pub(crate) timeout: Option<u64>,
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
    /// Longest text in characters that an endpoint gets as one; longer ones go in pieces.
    pub(crate) max_characters: Option<usize>,
    /// Put before every query; what a local model's folder says if not set.
    pub(crate) query_prefix: Option<String>,
    /// Put before every memory; what a local model's folder says if not set.
    pub(crate) memory_prefix: Option<String>,
    /// Threads of a local encoder; all cores if not set.
    pub(crate) threads: Option<usize>,
    /// Have a local encoder multiply f32 where the processor would be faster with bfloat16.
    pub(crate) full_precision: bool,
}

/// What a command runs with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Settings {
    pub(crate) data_dir: PathBuf,
    pub(crate) namespace: String,
    pub(crate) recipe: String,
    pub(crate) encoder: EncoderConfig,
    pub(crate) server: ServerConfig,
    pub(crate) critic: CriticConfig,
    pub(crate) proxy: ProxyConfig,
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
    let encoder = EncoderConfig {
        model: flags.encoder.clone().or(read.encoder.model),
        url: flags.encoder_url.clone().or(read.encoder.url),
        ..read.encoder
    };
    let named = flags.data_dir.clone().or(read.data_dir).map(|path| under_home(&path));
    let data_dir = named.map_or_else(default_data_dir, Ok)?;
    Ok(Settings {
        data_dir,
        namespace: flags.namespace.clone().or(read.namespace).unwrap_or_else(|| "default".to_owned()),
        recipe: flags.recipe.clone().or(read.recipe).unwrap_or_else(|| "default".to_owned()),
        encoder,
        server: read.server,
        critic: read.critic,
        proxy: read.proxy,
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
    let variables = Environment::with_prefix("EARMARK").prefix_separator("_").separator("__").ignore_empty(true);
    let known = variables.source(Some(known_variables()));
    let read = builder.add_source(known).build().and_then(Config::try_deserialize);
    read.map_err(|e| {
        let place = file.map_or("the environment".to_owned(), |f| f.display().to_string());
        Error::invalid("config", format!("({place}) cannot be used: {e}"))
    })
}

/// Settings of one word.
const PLAIN: [&str; 3] = ["DATA_DIR", "NAMESPACE", "RECIPE"];
/// Variables that are read elsewhere.
const OTHERS: [&str; 3] = ["CONFIG", "MODELS", "CRITIC_KEY"];
/// Settings in a section that have a short name too.
const SHORT: [(&str, &str); 3] =
    [("ENCODER", "ENCODER__MODEL"), ("CRITIC_URL", "CRITIC__URL"), ("CRITIC_MODEL", "CRITIC__MODEL")];

/// Settings of a section of the file.
fn in_section(rest: &str) -> bool {
    ["ENCODER__", "SERVER__", "CRITIC__", "PROXY__"].iter().any(|section| rest.starts_with(section))
}

/// `EARMARK_*` variables that nothing reads: typos, most likely.
pub(crate) fn unknown_variables() -> Vec<String> {
    let unknown = |name: &String| {
        let rest = name.strip_prefix("EARMARK_");
        let short = |rest: &str| SHORT.iter().any(|(short, _)| *short == rest);
        rest.is_some_and(|rest| !PLAIN.contains(&rest) && !OTHERS.contains(&rest) && !in_section(rest) && !short(rest))
    };
    std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).filter(unknown).collect()
}

/// The `EARMARK_*` variables that are settings; the others (such as `EARMARK_MODELS`) belong to other parts.
fn known_variables() -> config::Map<String, String> {
    let ours = |name: &str| {
        let rest = name.strip_prefix("EARMARK_").unwrap_or_default();
        PLAIN.contains(&rest) || in_section(rest)
    };
    let value = |name: &str| std::env::var(format!("EARMARK_{name}")).ok().filter(|value| !value.is_empty());
    let short = SHORT.iter().filter_map(|(short, long)| Some((format!("EARMARK_{long}"), value(short)?)));
    // Not `vars`, which panics on a variable that is not Unicode.
    let texts =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    texts.filter(|(name, _)| ours(name)).chain(short).collect()
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

/// `~/notes` as a shell would read it: a config file has no shell.
fn under_home(path: &Path) -> PathBuf {
    let home = || Some(BaseDirs::new()?.home_dir().to_owned());
    path.strip_prefix("~").ok().and_then(|rest| Some(home()?.join(rest))).unwrap_or_else(|| path.to_owned())
}

fn project_dirs() -> Option<ProjectDirs> {
    ProjectDirs::from("", "", "earmark")
}
