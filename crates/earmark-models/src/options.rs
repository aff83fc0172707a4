//! How a model is used.

/// Settings of an encoder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelOptions {
    /// Put before every query; by default what the model's folder says.
    pub query_prefix: Option<String>,
    /// Put before every memory; by default what the model's folder says.
    pub memory_prefix: Option<String>,
    /// Keeps matrices as bfloat16 in memory, half of the size of the usual float32 files; arithmetic stays float32.
    /// Weights that are published as bfloat16 or float16 are kept as they are in any case.
    pub bfloat16: bool,
}
