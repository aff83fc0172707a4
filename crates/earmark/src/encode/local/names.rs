//! The names of a checkpoint's tensors, which differ between families and versions.

use super::checkpoint::{Checkpoint, Result};

/// Names of one checkpoint.
pub(super) struct Names {
    /// What stands before every name, for example `bert.`.
    prefix: String,
    mpnet: bool,
    token_types: bool,
    /// The two words for scale and shift of a layer normalisation; old files say `gamma` and `beta`.
    norm: (&'static str, &'static str),
}

const WORDS: &str = "embeddings.word_embeddings.weight";

impl Names {
    pub(super) fn of(file: &Checkpoint, model_type: &str) -> Result<Self> {
        let prefixes = file.names().filter_map(|name| name.strip_suffix(WORDS));
        let prefix = prefixes.min_by_key(|prefix| prefix.len());
        let prefix = prefix.ok_or_else(|| format!("the model file has no tensor `{WORDS}`"))?.to_owned();
        let old = file.has(&format!("{prefix}embeddings.LayerNorm.gamma"));
        let token_types = file.has(&format!("{prefix}{TOKEN_TYPES}"));
        let norm = if old { ("gamma", "beta") } else { ("weight", "bias") };
        Ok(Names { prefix, mpnet: model_type == "mpnet", token_types, norm })
    }

    pub(super) fn words(&self) -> String {
        format!("{}{WORDS}", self.prefix)
    }

    pub(super) fn positions(&self) -> String {
        format!("{}embeddings.position_embeddings.weight", self.prefix)
    }

    pub(super) fn token_types(&self) -> Option<String> {
        self.token_types.then(|| format!("{}{TOKEN_TYPES}", self.prefix))
    }

    pub(super) fn embedding_norm(&self) -> (String, String) {
        self.norm(&format!("{}embeddings.LayerNorm", self.prefix))
    }

    pub(super) fn relative_bias(&self) -> Option<String> {
        self.mpnet.then(|| format!("{}encoder.relative_attention_bias.weight", self.prefix))
    }

    /// Queries, keys and values.
    pub(super) fn qkv(&self, layer: usize) -> [String; 3] {
        match self.mpnet {
            true => ["q", "k", "v"].map(|part| self.layer(layer, &format!("attention.attn.{part}"))),
            false => ["query", "key", "value"].map(|part| self.layer(layer, &format!("attention.self.{part}"))),
        }
    }

    /// The product after attention.
    pub(super) fn mix(&self, layer: usize) -> String {
        self.layer(layer, if self.mpnet { "attention.attn.o" } else { "attention.output.dense" })
    }

    pub(super) fn mix_norm(&self, layer: usize) -> (String, String) {
        self.norm(&self.layer(layer, if self.mpnet { "attention.LayerNorm" } else { "attention.output.LayerNorm" }))
    }

    pub(super) fn up(&self, layer: usize) -> String {
        self.layer(layer, "intermediate.dense")
    }

    pub(super) fn down(&self, layer: usize) -> String {
        self.layer(layer, "output.dense")
    }

    pub(super) fn down_norm(&self, layer: usize) -> (String, String) {
        self.norm(&self.layer(layer, "output.LayerNorm"))
    }

    fn layer(&self, layer: usize, name: &str) -> String {
        format!("{}encoder.layer.{layer}.{name}", self.prefix)
    }

    fn norm(&self, name: &str) -> (String, String) {
        (format!("{name}.{}", self.norm.0), format!("{name}.{}", self.norm.1))
    }
}

const TOKEN_TYPES: &str = "embeddings.token_type_embeddings.weight";
