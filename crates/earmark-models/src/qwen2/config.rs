//! `config.json` of a Qwen2 encoder.

use std::path::Path;

use earmark::encode::parts::need_json;
use serde::Deserialize;

use crate::files::Result;

/// The sizes of the model.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Config {
    model_type: String,
    pub(super) vocab_size: usize,
    pub(super) hidden_size: usize,
    pub(super) intermediate_size: usize,
    pub(super) num_hidden_layers: usize,
    pub(super) num_attention_heads: usize,
    pub(super) num_key_value_heads: usize,
    pub(super) max_position_embeddings: usize,
    pub(super) rms_norm_eps: f32,
    hidden_act: String,
    #[serde(default)]
    rope_theta: Option<f64>,
    /// Where newer files have the base of the rotation.
    #[serde(default)]
    rope_parameters: Option<RopeParameters>,
    #[serde(default)]
    rope_scaling: Option<serde_json::Value>,
    #[serde(default)]
    use_sliding_window: bool,
    /// Whether a token sees only those before it. The published code of the encoders sees all when this is not said.
    #[serde(default)]
    pub(super) is_causal: bool,
}

#[derive(Debug, Clone, Deserialize)]
struct RopeParameters {
    rope_theta: f64,
    #[serde(default)]
    rope_type: Option<String>,
}

impl Config {
    /// Reads it and refuses what the runtime cannot do.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("config.json");
        let config: Config = need_json(&path)?;
        config.check().map_err(|reason| format!("{}: {reason}", path.display()))?;
        Ok(config)
    }

    fn check(&self) -> Result<()> {
        if self.model_type != "qwen2" {
            return Err(format!("model_type `{}` is not supported, only `qwen2`", self.model_type));
        }
        if self.hidden_act != "silu" {
            return Err(format!("hidden_act `{}` is not supported, only `silu`", self.hidden_act));
        }
        let scaled =
            |parameters: &RopeParameters| parameters.rope_type.as_deref().is_some_and(|kind| kind != "default");
        if self.rope_scaling.is_some() || self.rope_parameters.as_ref().is_some_and(scaled) {
            return Err("scaled rotary positions are not supported".into());
        }
        if self.use_sliding_window {
            return Err("use_sliding_window is not supported".into());
        }
        let (heads, shared) = (self.num_attention_heads, self.num_key_value_heads);
        if heads == 0 || shared == 0 || !heads.is_multiple_of(shared) || !self.hidden_size.is_multiple_of(2 * heads) {
            return Err("num_attention_heads has to be a multiple of num_key_value_heads, and hidden_size twice a \
                        multiple of num_attention_heads"
                .into());
        }
        Ok(())
    }

    /// Numbers of one head.
    pub(super) fn head_size(&self) -> usize {
        self.hidden_size / self.num_attention_heads
    }

    /// Base of the rotation.
    pub(super) fn rope_theta(&self) -> f64 {
        let newer = self.rope_parameters.as_ref().map(|parameters| parameters.rope_theta);
        newer.or(self.rope_theta).unwrap_or(10_000.0)
    }
}
