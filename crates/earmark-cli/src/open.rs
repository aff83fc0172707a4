//! From settings to an open memory.

use std::sync::Arc;

use anstream::eprintln;
use earmark::{
    Earmark, Error, Namespace, Params, Result,
    critic::LlmOptions,
    encode::{Encoder, LocalOptions, Remote, RemoteOptions, open_local},
};

use crate::settings::{CriticConfig, EncoderConfig, Settings};

/// The encoder used when none is named.
pub(crate) const DEFAULT_ENCODER: &str = "all-MiniLM-L6-v2";

/// Opens the data folder; the encoder is loaded when first needed. A folder that is made now is named, so that
/// nobody has to look for their memories.
pub(crate) fn earmark(settings: &Settings) -> Result<Earmark> {
    opened(settings, true)
}

/// As [`earmark`], for servers, which learn in the background.
pub(crate) fn served(settings: &Settings) -> Result<Earmark> {
    opened(settings, false)
}

fn opened(settings: &Settings, learn_at_once: bool) -> Result<Earmark> {
    let is_new = !settings.data_dir.exists();
    let encoder = settings.encoder.clone();
    let options = earmark::Settings { params: recipe(&settings.recipe)?, learn_at_once, ..Default::default() };
    let earmark = Earmark::open(&settings.data_dir, options, move || load_encoder(&encoder))?;
    if is_new && !settings.quiet && !settings.json {
        eprintln!("new data folder: {}", settings.data_dir.display());
    }
    Ok(earmark)
}

/// Opens the namespace of the settings.
pub(crate) fn namespace(settings: &Settings) -> Result<Arc<Namespace>> {
    earmark(settings)?.namespace(&settings.namespace)
}

/// Opens the namespace of the settings if there is one; reading never creates.
pub(crate) fn existing(settings: &Settings) -> Result<Arc<Namespace>> {
    let earmark = earmark(settings)?;
    if !earmark.namespaces()?.contains(&settings.namespace) && settings.namespace != "default" {
        return Err(Error::not_found("namespace", &settings.namespace));
    }
    earmark.namespace(&settings.namespace)
}

pub(crate) fn recipe(name: &str) -> Result<Params> {
    match name {
        "default" => Ok(Params::default()),
        "paper" => Ok(Params::paper()),
        other => Err(Error::invalid("recipe", format!("is `{other}`, but must be `default` or `paper`"))),
    }
}

/// Loads the encoder that the settings name.
pub(crate) fn load_encoder(config: &EncoderConfig) -> Result<Arc<dyn Encoder>> {
    match &config.url {
        Some(url) => remote(url, config),
        None => {
            let (query_prefix, memory_prefix) = (config.query_prefix.clone(), config.memory_prefix.clone());
            let options = LocalOptions {
                threads: config.threads,
                query_prefix,
                memory_prefix,
                full_precision: config.full_precision,
            };
            Ok(Arc::from(open_local(config.model.as_deref().unwrap_or(DEFAULT_ENCODER), &options)?))
        }
    }
}

/// The critic that the settings name, if any.
pub(crate) fn critic_options(config: &CriticConfig) -> Result<Option<LlmOptions>> {
    let Some(url) = &config.url else { return Ok(None) };
    let missing = || Error::invalid("critic.model", "is not set; the critic's endpoint needs the name of its model");
    let model = config.model.as_deref().ok_or_else(missing)?;
    let key_variable = config.key_env.clone().unwrap_or_else(|| "EARMARK_CRITIC_KEY".to_owned());
    Ok(Some(LlmOptions { key_variable: Some(key_variable), ..LlmOptions::new(url, model) }))
}

fn remote(url: &str, config: &EncoderConfig) -> Result<Arc<dyn Encoder>> {
    let missing = || Error::invalid("encoder.model", "is not set; an endpoint needs the name of its model");
    let model = config.model.as_deref().ok_or_else(missing)?;
    let options = RemoteOptions {
        key_variable: config.key_env.clone(),
        dimension: config.dimension,
        max_characters: config.max_characters,
        query_prefix: config.query_prefix.clone().unwrap_or_default(),
        memory_prefix: config.memory_prefix.clone().unwrap_or_default(),
        ..RemoteOptions::new(url, model)
    };
    Ok(Arc::new(Remote::open(options)?))
}
