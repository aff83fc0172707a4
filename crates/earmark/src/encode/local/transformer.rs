//! The forward pass of BERT, RoBERTa and MPNet encoders on plain f32 rows; products may round to bfloat16 first.
//!
//! The tokens of several texts stand below each other without padding: everything but attention works on rows,
//! and attention stays within a text. A text's result is therefore the same bit for bit in every batch.

use std::sync::{Mutex, PoisonError};

use pulp::Arch;
use rayon::prelude::*;

use super::attention::{RelativeBias, Sizes, Space, attend};
use super::buffer::{Buffer, LINE};
use super::checkpoint::{Checkpoint, Result};
use super::config::ModelConfig;
use super::elementwise::{LayerNorm, gelu, layer_norm};
use super::matrix::{Form, Matrix, Rows};
use super::names::Names;
use super::product::{Start, multiply};

/// A frozen encoder.
pub(super) struct Transformer {
    arch: Arch,
    form: Form,
    hidden: usize,
    heads: usize,
    words: Vec<f32>,
    /// Position embeddings from the first position in use, with the embedding of the first token type added.
    positions: Vec<f32>,
    embedding_norm: LayerNorm,
    relative: Option<RelativeBias>,
    layers: Vec<Layer>,
    spare: Mutex<Vec<Scratch>>,
}

struct Layer {
    /// Queries (already scaled by 1 / sqrt(head size)), keys and values in one product.
    qkv: Linear,
    mix: Linear,
    mix_norm: LayerNorm,
    up: Linear,
    down: Linear,
    down_norm: LayerNorm,
}

struct Linear {
    matrix: Matrix,
    bias: Vec<f32>,
    inputs: usize,
    outputs: usize,
}

/// Activations of one batch; kept for the next one.
struct Scratch {
    state: Buffer,
    qkv: Buffer,
    mixed: Buffer,
    inner: Buffer,
    /// The input of a product, where the matrix wants it in another form.
    packed: Buffer,
    attention: Space,
}

/// Token vectors `[tokens x hidden]` of several texts, `stride` apart.
pub(super) struct States<'a> {
    pub(super) values: &'a [f32],
    pub(super) stride: usize,
}

/// Distance of rows of activations: one cache line more than they need, so that the rows of a tile do not
/// compete for the same places of the cache.
fn stride_of(columns: usize) -> usize {
    columns.next_multiple_of(LINE) + LINE
}

impl Transformer {
    /// Without `full_precision` the weights, and what they are multiplied with, are rounded to bfloat16 if this
    /// processor multiplies that.
    pub(super) fn read(file: &Checkpoint, config: &ModelConfig, window: usize, full_precision: bool) -> Result<Self> {
        let (arch, names) = (Arch::new(), Names::of(file, &config.model_type)?);
        let form = Form::of(arch, full_precision);
        let source = Source { arch, form, file, config, names: &names };
        let relative = |name: String| {
            let (buckets, heads) = (config.relative_attention_num_buckets, config.num_attention_heads);
            RelativeBias::read(file, &name, buckets, heads, window)
        };
        Ok(Transformer {
            arch,
            form,
            hidden: config.hidden_size,
            heads: config.num_attention_heads,
            words: file.read(&names.words(), &[config.vocab_size, config.hidden_size])?,
            positions: source.positions()?,
            embedding_norm: source.norm(&names.embedding_norm())?,
            relative: names.relative_bias().map(relative).transpose()?,
            layers: (0..config.num_hidden_layers).map(|layer| source.layer(layer)).collect::<Result<_>>()?,
            spare: Mutex::default(),
        })
    }

    /// Dimension of the token vectors.
    pub(super) fn hidden(&self) -> usize {
        self.hidden
    }

    /// Runs the texts (token ids) through all layers and hands the last states to `pool`. With `threads` above
    /// one the rows of each product are shared out; the result is the same.
    pub(super) fn run<T>(&self, texts: &[&[u32]], threads: usize, pool: impl FnOnce(States<'_>) -> T) -> T {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut scratch = spare.unwrap_or_else(|| Scratch::new(self.arch, self.form));
        let tokens = texts.iter().map(|ids| ids.len()).sum();
        scratch.resize(tokens, self);
        self.embed(texts, &mut scratch.state);
        for layer in &self.layers {
            self.attention(layer, texts, threads, &mut scratch);
            self.feed_forward(layer, threads, &mut scratch);
        }
        let result = pool(States { values: &scratch.state, stride: stride_of(self.hidden) });
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
        result
    }

    fn embed(&self, texts: &[&[u32]], state: &mut [f32]) {
        let (hidden, stride) = (self.hidden, stride_of(self.hidden));
        let places = texts.iter().flat_map(|ids| ids.iter().enumerate());
        for (row, (position, id)) in state.chunks_exact_mut(stride).zip(places) {
            let word = &self.words[*id as usize * hidden..][..hidden];
            let place = &self.positions[position * hidden..][..hidden];
            for ((value, word), place) in row.iter_mut().zip(word).zip(place) {
                *value = word + place;
            }
        }
        layer_norm(self.arch, state, stride, &self.embedding_norm);
    }

    fn attention(&self, layer: &Layer, texts: &[&[u32]], threads: usize, scratch: &mut Scratch) {
        let Scratch { state, qkv, mixed, packed, attention, .. } = scratch;
        let (qkv_stride, stride) = (stride_of(3 * self.hidden), stride_of(self.hidden));
        let sizes = Sizes { hidden: self.hidden, heads: self.heads, qkv_stride, output_stride: stride };
        self.linear(&layer.qkv, threads, (state, stride), false, qkv, packed);
        let mut first = 0;
        for ids in texts {
            let (input, output) = (&qkv[first * qkv_stride..], &mut mixed[first * stride..]);
            attend(self.arch, sizes, self.relative.as_ref(), input, ids.len(), output, attention);
            first += ids.len();
        }
        self.linear(&layer.mix, threads, (mixed, stride), true, state, packed);
        layer_norm(self.arch, state, stride, &layer.mix_norm);
    }

    fn feed_forward(&self, layer: &Layer, threads: usize, scratch: &mut Scratch) {
        let Scratch { state, inner, packed, .. } = scratch;
        let stride = stride_of(self.hidden);
        self.linear(&layer.up, threads, (state, stride), false, inner, packed);
        gelu(self.arch, inner);
        self.linear(&layer.down, threads, (inner, stride_of(layer.up.outputs)), true, state, packed);
        layer_norm(self.arch, state, stride, &layer.down_norm);
    }

    /// `output = input * weights + bias`, or `output += ...` when `add` is set.
    fn linear(
        &self,
        linear: &Linear,
        threads: usize,
        (input, stride): (&[f32], usize),
        add: bool,
        output: &mut [f32],
        packed: &mut Buffer,
    ) {
        let output_stride = stride_of(linear.outputs);
        let rows = Rows { values: input, stride, count: output.len() / output_stride };
        let Rows { values: input, stride: input_stride, .. } = linear.matrix.input(rows, linear.inputs, packed);
        let start = if add { Start::Add(&linear.bias) } else { Start::Bias(&linear.bias) };
        let part = |(input, output): (&[f32], &mut [f32])| {
            let rows = Rows { values: input, stride: input_stride, count: output.len() / output_stride };
            multiply(self.arch, rows, &linear.matrix, start, output, output_stride);
        };
        if threads <= 1 {
            return part((input, output));
        }
        let rows = (output.len() / output_stride).div_ceil(threads).max(1);
        let inputs = input.par_chunks(rows * input_stride);
        inputs.zip(output.par_chunks_mut(rows * output_stride)).for_each(part);
    }
}

impl Scratch {
    fn new(arch: Arch, form: Form) -> Self {
        let empty = || Buffer::zeros(0);
        let (state, qkv, mixed) = (empty(), empty(), empty());
        Scratch { state, qkv, mixed, inner: empty(), packed: empty(), attention: Space::new(arch, form) }
    }

    fn resize(&mut self, tokens: usize, model: &Transformer) {
        let inner = model.layers.first().map_or(0, |layer| layer.up.outputs);
        self.state.resize(tokens * stride_of(model.hidden));
        self.mixed.resize(tokens * stride_of(model.hidden));
        self.qkv.resize(tokens * stride_of(3 * model.hidden));
        self.inner.resize(tokens * stride_of(inner));
    }
}

/// Where the parts of a transformer are read from, and the form of its matrices.
struct Source<'a> {
    arch: Arch,
    form: Form,
    file: &'a Checkpoint,
    config: &'a ModelConfig,
    names: &'a Names,
}

impl Source<'_> {
    fn positions(&self) -> Result<Vec<f32>> {
        let (file, config, hidden) = (self.file, self.config, self.config.hidden_size);
        let mut positions = file.read(&self.names.positions(), &[config.max_position_embeddings, hidden])?;
        positions.drain(..config.first_position() * hidden);
        if let Some(name) = self.names.token_types() {
            let types = file.shape(&name)?.first().copied().unwrap_or_default();
            let types = file.read(&name, &[types, hidden])?;
            for row in positions.chunks_exact_mut(hidden) {
                row.iter_mut().zip(&types).for_each(|(value, first_type)| *value += first_type);
            }
        }
        Ok(positions)
    }

    fn norm(&self, names: &(String, String)) -> Result<LayerNorm> {
        let shape = [self.config.hidden_size];
        let (weight, bias) = (self.file.read(&names.0, &shape)?, self.file.read(&names.1, &shape)?);
        Ok(LayerNorm { weight, bias, epsilon: self.config.layer_norm_eps })
    }

    fn layer(&self, layer: usize) -> Result<Layer> {
        let (names, hidden, inner) = (self.names, self.config.hidden_size, self.config.intermediate_size);
        let linear = |name: String, outputs, inputs| {
            let (weights, bias) = self.linear(&name, outputs, inputs)?;
            Ok::<_, String>(self.laid_out(&weights, bias, inputs))
        };
        Ok(Layer {
            qkv: self.qkv(layer)?,
            mix: linear(names.mix(layer), hidden, hidden)?,
            mix_norm: self.norm(&names.mix_norm(layer))?,
            up: linear(names.up(layer), inner, hidden)?,
            down: linear(names.down(layer), hidden, inner)?,
            down_norm: self.norm(&names.down_norm(layer))?,
        })
    }

    /// Queries, keys and values as one layer, the queries scaled.
    fn qkv(&self, layer: usize) -> Result<Linear> {
        let hidden = self.config.hidden_size;
        let scale = 1.0 / ((hidden / self.config.num_attention_heads) as f32).sqrt();
        let (mut weights, mut bias) = (Vec::new(), Vec::new());
        for (name, scale) in self.names.qkv(layer).into_iter().zip([scale, 1.0, 1.0]) {
            let (part, part_bias) = self.linear(&name, hidden, hidden)?;
            weights.extend(part.iter().map(|value| value * scale));
            bias.extend(part_bias.iter().map(|value| value * scale));
        }
        Ok(self.laid_out(&weights, bias, hidden))
    }

    /// Weights `[outputs x inputs]` and bias of a linear layer.
    fn linear(&self, name: &str, outputs: usize, inputs: usize) -> Result<(Vec<f32>, Vec<f32>)> {
        let weights = self.file.read(&format!("{name}.weight"), &[outputs, inputs])?;
        Ok((weights, self.file.read(&format!("{name}.bias"), &[outputs])?))
    }

    fn laid_out(&self, weights: &[f32], mut bias: Vec<f32>, inputs: usize) -> Linear {
        let outputs = bias.len();
        let matrix = Matrix::from_weights(self.arch, self.form, weights, outputs, inputs);
        bias.resize(matrix.padded_columns(), 0.0);
        Linear { matrix, bias, inputs, outputs }
    }
}
