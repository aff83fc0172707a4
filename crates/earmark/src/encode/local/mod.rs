//! Models of the BERT family on this machine's processor.

mod attention;
mod bf16;
mod buffer;
mod checkpoint;
mod config;
mod elementwise;
mod folder;
#[cfg(feature = "hub")]
mod hub;
mod matrix;
mod names;
mod pickle;
mod product;
mod resolve;
mod static_vectors;
mod tokens;
mod torch_file;
mod transformer;

use std::path::{Path, PathBuf};

use rayon::prelude::*;

use self::checkpoint::Checkpoint;
use self::config::{Head, ModelConfig, Pooling};
use self::tokens::{Window, Windows, batches, read_tokenizer};
use self::transformer::{States, Transformer};
use super::{Encoder, Side};
use crate::error::{Error, Result};
use crate::vector;

pub use self::static_vectors::StaticVectors;

/// What a runtime of other models shares with this one: the small files of a model folder, and texts as windows of
/// tokens. What goes wrong is told in words, without the model's name.
pub mod parts {
    pub use super::folder::{Module, Prefixes, need_json, read_json, read_pooling};
    pub use super::tokens::{Window, Windows, batches, read_tokenizer};
}

/// Most tokens that pass through the layers together: enough to use each weight many times while it is in the
/// cache, few enough for the activations to stay there.
const BATCH_TOKENS: usize = 256;

/// How a local model is used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalOptions {
    /// Threads; by default as many as the machine runs at once.
    pub threads: Option<usize>,
    /// Put before every query, for example `query: `; by default what the model's folder says.
    pub query_prefix: Option<String>,
    /// Put before every memory, for example `passage: `; by default what the model's folder says.
    pub memory_prefix: Option<String>,
    /// Multiply f32 even where the processor has an instruction for bfloat16 (AVX-512 BF16: AMD since Zen 4, Intel
    /// Xeon since Sapphire Rapids). With bfloat16 a transformer is about twice as fast and its weights take half of
    /// the memory; the vectors of all-MiniLM-L6-v2 and all-mpnet-base-v2 keep a cosine above 0.9999.
    pub full_precision: bool,
}

/// A BERT, RoBERTa or MPNet encoder that runs here.
///
/// Texts longer than the model's window are cut into windows of tokens. The vector of such a text is the mean of
/// its windows' vectors, each weighted by its number of tokens; it is normalized when the model normalizes.
/// The vectors do not depend on the batch nor on the number of threads, to the last bit.
pub struct Local {
    model: String,
    windows: Windows,
    transformer: Transformer,
    head: Head,
    threads: Option<rayon::ThreadPool>,
}

/// Opens a model by name or folder: a transformer, or static token vectors where the folder holds those.
///
/// `name` is looked for as a folder; by its last part in the folder that `EARMARK_MODELS` names and in
/// `earmark/models` of the platform's cache folder; then (with feature `hub`) in the cache of the Hugging Face hub
/// and on the hub, where a bare name stands for one of `sentence-transformers/`. The last part of the name
/// is the encoder's [`model`](Encoder::model), wherever it was found.
///
/// # Errors
/// [`Error::Encoder`], which says what was tried and how to get the model.
///
/// # Example
/// ```no_run
/// use earmark::encode::{LocalOptions, Side, open_local};
///
/// let encoder = open_local("all-MiniLM-L6-v2", &LocalOptions::default())?;
/// let vectors = encoder.encode(&["where is the spare key?"], Side::Query)?;
/// assert_eq!(vectors[0].len(), encoder.dimension());
/// # Ok::<(), earmark::Error>(())
/// ```
pub fn open_local(name: &str, options: &LocalOptions) -> Result<Box<dyn Encoder>> {
    let (model, folder) = find_model(name)?;
    Ok(match StaticVectors::is_in(&folder) {
        true => Box::new(StaticVectors::from_folder(&model, &folder)?),
        false => Box::new(Local::from_folder(&model, &folder, options)?),
    })
}

/// The plain name of a model and its folder, looked for as by [`open_local`]: for runtimes other than this one.
///
/// # Errors
/// [`Error::Encoder`], which says what was tried and how to get the model.
pub fn find_model(name: &str) -> Result<(String, PathBuf)> {
    let error = |reason| Error::Encoder { model: name.to_owned(), reason };
    if name.trim().is_empty() {
        return Err(error("the name is empty; give a model's name or its folder".into()));
    }
    let folder = resolve::folder_of(name).map_err(error)?;
    let plain = Path::new(name).file_name().map(|last| last.to_string_lossy().into_owned());
    Ok((plain.unwrap_or_else(|| name.to_owned()), folder))
}

impl Local {
    /// Opens a transformer by name or folder, looked for as by [`open_local`].
    ///
    /// # Errors
    /// [`Error::Encoder`], which says what was tried and how to get the model.
    pub fn open(name: &str, options: &LocalOptions) -> Result<Self> {
        let (model, folder) = find_model(name)?;
        Local::from_folder(&model, &folder, options)
    }

    /// Loads a model from a folder with `config.json`, `tokenizer.json` and `model.safetensors` or
    /// `pytorch_model.bin`; `modules.json` and what it names decide on pooling and normalisation.
    /// Without it the mean is taken and not normalized.
    ///
    /// # Errors
    /// [`Error::Encoder`] when a file is missing or broken, or the model is of another family.
    pub fn from_folder(model: &str, folder: &Path, options: &LocalOptions) -> Result<Self> {
        let error = |reason| Error::Encoder { model: model.to_owned(), reason };
        let (windows, transformer, mut head) = load(folder, options.full_precision).map_err(error)?;
        head.prefixes = head.prefixes.with(&options.query_prefix, &options.memory_prefix);
        let threads = thread_pool(options.threads).map_err(error)?;
        Ok(Local { model: model.to_owned(), windows, transformer, head, threads })
    }

    fn windows_of(&self, texts: &[&str], side: Side) -> checkpoint::Result<Vec<Window>> {
        let prefix = self.head.prefixes.of(side);
        let cut = |(position, text): (usize, &&str)| match prefix.is_empty() {
            true => self.windows.of(position, text),
            false => self.windows.of(position, &format!("{prefix}{text}")),
        };
        let windows: Vec<Vec<Window>> = match self.threads {
            None => texts.iter().enumerate().map(cut).collect::<checkpoint::Result<_>>()?,
            Some(_) => texts.par_iter().enumerate().map(cut).collect::<checkpoint::Result<_>>()?,
        };
        Ok(windows.into_iter().flatten().collect())
    }

    fn encode_here(&self, texts: &[&str], side: Side) -> checkpoint::Result<Vec<Vec<f32>>> {
        let mut windows = self.windows_of(texts, side)?;
        windows.sort_by_key(|window| std::cmp::Reverse(window.ids.len()));
        let batches = batches(&windows, BATCH_TOKENS);
        let threads = self.threads.as_ref().map_or(1, rayon::ThreadPool::current_num_threads);
        let inner = if batches.len() < threads { threads } else { 1 };
        let vectors: Vec<Vec<Vec<f32>>> = match self.threads {
            None => batches.iter().map(|batch| self.run(batch, 1)).collect(),
            Some(_) => batches.par_iter().map(|batch| self.run(batch, inner)).collect(),
        };
        Ok(self.pool_windows(texts.len(), &windows, &vectors.concat()))
    }

    /// One vector a window.
    fn run(&self, batch: &[Window], threads: usize) -> Vec<Vec<f32>> {
        let ids: Vec<&[u32]> = batch.iter().map(|window| window.ids.as_slice()).collect();
        self.transformer.run(&ids, threads, |states| {
            let mut first = 0;
            let pool = |ids: &&[u32]| {
                let vector = self.pool_tokens(&states, first, ids.len());
                first += ids.len();
                vector
            };
            ids.iter().map(pool).collect()
        })
    }

    fn pool_tokens(&self, states: &States<'_>, first: usize, count: usize) -> Vec<f32> {
        let hidden = self.transformer.hidden();
        let used = if self.head.pooling == Pooling::Cls { count.min(1) } else { count };
        let mut sum = vec![0.0; hidden];
        for row in states.values.chunks_exact(states.stride).skip(first).take(used) {
            add_scaled(&mut sum, &row[..hidden], 1.0);
        }
        let scale = 1.0 / used.max(1) as f32;
        sum.iter_mut().for_each(|value| *value *= scale);
        self.finish(&mut sum);
        sum
    }

    /// Puts the windows of each text together again, in the order of the texts.
    fn pool_windows(&self, texts: usize, windows: &[Window], vectors: &[Vec<f32>]) -> Vec<Vec<f32>> {
        let mut order: Vec<usize> = (0..windows.len()).collect();
        // A stable order within a text keeps the sum the same in every batch.
        order.sort_by_key(|index| windows[*index].text);
        let mut pooled = vec![Vec::new(); texts];
        for part in order.chunk_by(|left, right| windows[*left].text == windows[*right].text) {
            let text = windows[part[0]].text;
            pooled[text] = match part {
                [only] => vectors[*only].clone(),
                _ => self.pool_parts(part, windows, vectors),
            };
        }
        pooled
    }

    fn pool_parts(&self, part: &[usize], windows: &[Window], vectors: &[Vec<f32>]) -> Vec<f32> {
        let total: f32 = part.iter().map(|index| windows[*index].weight).sum();
        let mut sum = vec![0.0; self.transformer.hidden()];
        for index in part {
            add_scaled(&mut sum, &vectors[*index], windows[*index].weight / total);
        }
        self.finish(&mut sum);
        sum
    }

    fn finish(&self, values: &mut [f32]) {
        if self.head.normalize {
            vector::normalize(values);
        }
    }
}

impl Encoder for Local {
    fn model(&self) -> &str {
        &self.model
    }

    fn dimension(&self) -> usize {
        self.transformer.hidden()
    }

    fn encode(&self, texts: &[&str], side: Side) -> Result<Vec<Vec<f32>>> {
        let vectors = match &self.threads {
            None => self.encode_here(texts, side),
            Some(threads) => threads.install(|| self.encode_here(texts, side)),
        };
        vectors.map_err(|reason| Error::Encoder { model: self.model.clone(), reason })
    }
}

fn load(folder: &Path, full_precision: bool) -> checkpoint::Result<(Windows, Transformer, Head)> {
    let config = ModelConfig::read(folder)?;
    let head = Head::read(folder, &config)?;
    let tokenizer = read_tokenizer(folder)?;
    let largest = tokenizer.get_vocab_size(true);
    if largest > config.vocab_size {
        let known = config.vocab_size;
        return Err(format!(
            "tokenizer.json has {largest} tokens, but config.json only {known}; they do not belong together"
        ));
    }
    let transformer = Transformer::read(&Checkpoint::open(folder)?, &config, head.window, full_precision)?;
    Ok((Windows::new(tokenizer, None, head.window)?, transformer, head))
}

/// None for one thread, which then is the caller's own.
fn thread_pool(threads: Option<usize>) -> checkpoint::Result<Option<rayon::ThreadPool>> {
    let threads = threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    if threads <= 1 {
        return Ok(None);
    }
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().map(Some).map_err(|error| error.to_string())
}

/// `sum += scale values`.
pub(super) fn add_scaled(sum: &mut [f32], values: &[f32], scale: f32) {
    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value * scale);
}
