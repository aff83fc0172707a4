//! From token vectors to the vector of a text, as the files of sentence-transformers say.

use std::path::Path;

use candle_core::Tensor;
use earmark::encode::parts::{Module, Prefixes, need_json, read_pooling};
use earmark::vector;
use serde::Deserialize;

use crate::files::Result;
use crate::options::ModelOptions;
use crate::weights::Weights;

/// How token vectors become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pooling {
    Mean,
    LastToken,
}

const POOLINGS: [(&str, Pooling); 2] = [("mean", Pooling::Mean), ("lasttoken", Pooling::LastToken)];

/// A linear layer on the pooled vector.
struct Dense {
    weight: Tensor,
    bias: Option<Tensor>,
}

/// Everything behind the layers, and what comes before the text.
pub(crate) struct Head {
    pooling: Pooling,
    dense: Vec<Dense>,
    normalize: bool,
    pub(crate) prefixes: Prefixes,
}

#[derive(Deserialize)]
struct DenseConfig {
    in_features: usize,
    out_features: usize,
    #[serde(default = "yes")]
    bias: bool,
    activation_function: String,
}

fn yes() -> bool {
    true
}

impl Head {
    /// Reads `modules.json` and what it names, for token vectors of `hidden` numbers.
    pub(crate) fn read(folder: &Path, hidden: usize, options: &ModelOptions) -> Result<Self> {
        let file = folder.join("modules.json");
        let modules: Vec<Module> = need_json(&file)?;
        let (mut pooling, mut dense, mut normalize, mut width) = (None, Vec::new(), false, hidden);
        for module in &modules {
            let own = folder.join(&module.path);
            match module.kind() {
                "Transformer" => {}
                "Pooling" => pooling = Some(read_pooling(&own.join("config.json"), &POOLINGS)?),
                "Dense" if !normalize => dense.push(Dense::read(&own, &mut width)?),
                "Normalize" => normalize = true,
                other => return Err(format!("{}: module `{other}` is not supported here", file.display())),
            }
        }
        let pooling = pooling.ok_or_else(|| format!("{} names no pooling", file.display()))?;
        // Stella names its prompt for retrieval so.
        let prefixes = Prefixes::read(folder, &["query", "s2p_query"])?;
        let prefixes = prefixes.with(&options.query_prefix, &options.memory_prefix);
        Ok(Head { pooling, dense, normalize, prefixes })
    }

    /// Numbers of a vector, from token vectors of `hidden` numbers.
    pub(crate) fn dimension(&self, hidden: usize) -> usize {
        self.dense.last().map_or(hidden, |dense| dense.weight.dims()[0])
    }

    /// The vector of a window from its token vectors `[tokens x hidden]`, at least one.
    pub(crate) fn vector(&self, states: &Tensor) -> candle_core::Result<Vec<f32>> {
        let mut pooled = match self.pooling {
            Pooling::Mean => states.mean_keepdim(0)?,
            Pooling::LastToken => states.narrow(0, states.dim(0)? - 1, 1)?,
        };
        for dense in &self.dense {
            pooled = dense.forward(&pooled)?;
        }
        let mut vector = pooled.flatten_all()?.to_vec1()?;
        self.finish(&mut vector);
        Ok(vector)
    }

    /// Normalizes where the model does.
    pub(crate) fn finish(&self, vector: &mut [f32]) {
        if self.normalize {
            vector::normalize(vector);
        }
    }
}

impl Dense {
    /// Reads a module's folder; `width` is the number of inputs and becomes that of outputs.
    fn read(folder: &Path, width: &mut usize) -> Result<Self> {
        let path = folder.join("config.json");
        let config: DenseConfig = need_json(&path)?;
        if !config.activation_function.ends_with("Identity") {
            return Err(format!("{}: activation `{}` is not supported", path.display(), config.activation_function));
        }
        if config.in_features != *width {
            let wanted = config.in_features;
            return Err(format!("{}: in_features is {wanted}, but {width} numbers come in", path.display()));
        }
        *width = config.out_features;
        let mut weights = Weights::read(folder, false)?;
        let weight = weights.take_f32("linear.weight", &[config.out_features, config.in_features])?;
        let bias = config.bias.then(|| weights.take_f32("linear.bias", &[config.out_features])).transpose()?;
        Ok(Dense { weight, bias })
    }

    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        let y = x.contiguous()?.matmul(&self.weight.t()?)?;
        match &self.bias {
            Some(bias) => y.broadcast_add(bias),
            None => Ok(y),
        }
    }
}
