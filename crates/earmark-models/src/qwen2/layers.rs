//! The layers of Qwen2 on packed texts.
//!
//! The tokens of several texts lie one behind the other, so that there is no padding: the linear layers see all
//! tokens at once, attention one text at a time. (candle's own Qwen2 is made for generation: it keeps a cache of
//! keys, has no padding mask with causal attention, and no float32 arithmetic on bfloat16 weights.)

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::ops::{rms_norm, silu, softmax_last_dim};
use candle_nn::rotary_emb::rope;

use super::config::Config;
use crate::files;
use crate::weights::Weights;

/// A linear layer; the weight may be kept in half precision.
struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    fn read(weights: &mut Weights, name: &str, from: usize, to: usize, bias: bool) -> files::Result<Self> {
        let weight = weights.take(&format!("{name}.weight"), &[to, from])?;
        let bias = bias.then(|| weights.take_f32(&format!("{name}.bias"), &[to])).transpose()?;
        Ok(Linear { weight, bias })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = x.matmul(&self.weight.to_dtype(DType::F32)?.t()?)?;
        match &self.bias {
            Some(bias) => y.broadcast_add(bias),
            None => Ok(y),
        }
    }
}

/// Where the texts lie among the packed tokens, and the rotation of each token.
struct Packed {
    /// Start and length of each text.
    texts: Vec<(usize, usize)>,
    cos: Tensor,
    sin: Tensor,
}

impl Packed {
    fn new(texts: &[&[u32]], head_size: usize, theta: f64) -> Result<Self> {
        let half = head_size / 2;
        let turn = |index: usize| theta.powf(-2.0 * index as f64 / head_size as f64);
        let turns: Vec<f64> = (0..half).map(turn).collect();
        let positions = texts.iter().flat_map(|ids| 0..ids.len());
        let angles: Vec<f64> = positions.flat_map(|at| turns.iter().map(move |turn| at as f64 * turn)).collect();
        let table = |of: fn(f64) -> f64| {
            let values: Vec<f32> = angles.iter().map(|angle| of(*angle) as f32).collect();
            Tensor::from_vec(values, (angles.len() / half, half), &Device::Cpu)
        };
        let mut start = 0;
        let place = |ids: &&[u32]| {
            start += ids.len();
            (start - ids.len(), ids.len())
        };
        Ok(Packed { texts: texts.iter().map(place).collect(), cos: table(f64::cos)?, sin: table(f64::sin)? })
    }
}

struct Attention {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    heads: usize,
    /// Heads of keys and values; each serves `heads / shared` heads of queries.
    shared: usize,
    causal: bool,
}

impl Attention {
    fn read(weights: &mut Weights, name: &str, config: &Config) -> files::Result<Self> {
        let (hidden, shared) = (config.hidden_size, config.num_key_value_heads);
        let narrow = shared * config.head_size();
        let mut linear =
            |part: &str, to: usize, bias: bool| Linear::read(weights, &format!("{name}.{part}_proj"), hidden, to, bias);
        Ok(Attention {
            query: linear("q", hidden, true)?,
            key: linear("k", narrow, true)?,
            value: linear("v", narrow, true)?,
            output: linear("o", hidden, false)?,
            heads: config.num_attention_heads,
            shared,
            causal: config.is_causal,
        })
    }

    fn forward(&self, x: &Tensor, packed: &Packed) -> Result<Tensor> {
        let turned = |x: &Tensor| rope(&x.unsqueeze(0)?, &packed.cos, &packed.sin)?.squeeze(0);
        let query = turned(&by_head(&self.query.forward(x)?, self.heads)?)?;
        let key = turned(&by_head(&self.key.forward(x)?, self.shared)?)?;
        let value = by_head(&self.value.forward(x)?, self.shared)?;
        let text = |(start, length): &(usize, usize)| {
            let part = |x: &Tensor| x.narrow(1, *start, *length)?.contiguous();
            self.attend(&part(&query)?, &part(&key)?, &part(&value)?)
        };
        let texts = packed.texts.iter().map(text).collect::<Result<Vec<_>>>()?;
        self.output.forward(&Tensor::cat(&texts, 0)?)
    }

    /// One text: queries `[heads x tokens x size]`, keys and values `[shared x tokens x size]`; gives
    /// `[tokens x hidden]`. Heads that share keys are stacked, so that no key is copied.
    fn attend(&self, query: &Tensor, key: &Tensor, value: &Tensor) -> Result<Tensor> {
        let (heads, tokens, size) = query.dims3()?;
        let stacked = (self.shared, heads / self.shared * tokens, size);
        let scale = (size as f64).powf(-0.5);
        let scores = (query.reshape(stacked)?.matmul(&key.t()?)? * scale)?;
        let scores = match self.causal {
            true => scores
                .reshape((heads, tokens, tokens))?
                .broadcast_add(&causal_mask(tokens)?)?
                .reshape(scores.shape())?,
            false => scores,
        };
        let mixed = softmax_last_dim(&scores)?.matmul(value)?;
        mixed.reshape((heads, tokens, size))?.transpose(0, 1)?.reshape((tokens, heads * size))
    }
}

/// `[tokens x heads * size]` as `[heads x tokens x size]`.
fn by_head(x: &Tensor, heads: usize) -> Result<Tensor> {
    let (tokens, width) = x.dims2()?;
    x.reshape((tokens, heads, width / heads))?.transpose(0, 1)?.contiguous()
}

/// 0 where a token (row) sees another (column), minus infinity where that comes later.
fn causal_mask(tokens: usize) -> Result<Tensor> {
    let cell = |row: usize, column: usize| if column > row { f32::NEG_INFINITY } else { 0.0 };
    let mask: Vec<f32> = (0..tokens * tokens).map(|index| cell(index / tokens, index % tokens)).collect();
    Tensor::from_vec(mask, (tokens, tokens), &Device::Cpu)
}

struct Layer {
    before_attention: Tensor,
    attention: Attention,
    before_feed_forward: Tensor,
    gate: Linear,
    up: Linear,
    down: Linear,
    epsilon: f32,
}

impl Layer {
    fn read(weights: &mut Weights, name: &str, config: &Config) -> files::Result<Self> {
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        Ok(Layer {
            before_attention: weights.take_f32(&format!("{name}.input_layernorm.weight"), &[hidden])?,
            attention: Attention::read(weights, &format!("{name}.self_attn"), config)?,
            before_feed_forward: weights.take_f32(&format!("{name}.post_attention_layernorm.weight"), &[hidden])?,
            gate: Linear::read(weights, &format!("{name}.mlp.gate_proj"), hidden, wide, false)?,
            up: Linear::read(weights, &format!("{name}.mlp.up_proj"), hidden, wide, false)?,
            down: Linear::read(weights, &format!("{name}.mlp.down_proj"), wide, hidden, false)?,
            epsilon: config.rms_norm_eps,
        })
    }

    fn forward(&self, x: &Tensor, packed: &Packed) -> Result<Tensor> {
        let attended = self.attention.forward(&rms_norm(x, &self.before_attention, self.epsilon)?, packed)?;
        let x = (x + attended)?;
        let normed = rms_norm(&x, &self.before_feed_forward, self.epsilon)?;
        let wide = (silu(&self.gate.forward(&normed)?)? * self.up.forward(&normed)?)?;
        x + self.down.forward(&wide)?
    }
}

/// Token ids to token vectors.
pub(super) struct Layers {
    embedding: Tensor,
    layers: Vec<Layer>,
    last: Tensor,
    config: Config,
}

impl Layers {
    /// Takes what it needs out of the weights, named as in the bare model or as in the model for generation.
    pub(super) fn read(weights: &mut Weights, config: Config) -> files::Result<Self> {
        let root = if weights.has("model.embed_tokens.weight") { "model." } else { "" };
        let hidden = config.hidden_size;
        let embedding = weights.take(&format!("{root}embed_tokens.weight"), &[config.vocab_size, hidden])?;
        let mut layer = |index: usize| Layer::read(weights, &format!("{root}layers.{index}"), &config);
        let layers = (0..config.num_hidden_layers).map(&mut layer).collect::<files::Result<_>>()?;
        let last = weights.take_f32(&format!("{root}norm.weight"), &[hidden])?;
        Ok(Layers { embedding, layers, last, config })
    }

    /// The token vectors `[tokens x hidden]` of each text; no text may be empty.
    pub(super) fn run(&self, texts: &[&[u32]]) -> Result<Vec<Tensor>> {
        let ids = texts.concat();
        let packed = Packed::new(texts, self.config.head_size(), self.config.rope_theta())?;
        let ids = Tensor::from_vec(ids, packed.cos.dim(0)?, &Device::Cpu)?;
        let mut x = self.embedding.index_select(&ids, 0)?.to_dtype(DType::F32)?;
        for layer in &self.layers {
            x = layer.forward(&x, &packed)?;
        }
        let x = rms_norm(&x, &self.last, self.config.rms_norm_eps)?;
        packed.texts.iter().map(|(start, length)| x.narrow(0, *start, *length)).collect()
    }

    /// Numbers of a token vector.
    pub(super) fn hidden(&self) -> usize {
        self.config.hidden_size
    }
}
