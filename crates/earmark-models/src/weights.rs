//! Weights of a folder, from one file or several, as safetensors or as torch saves them.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use candle_core::{DType, Device, Tensor, pickle};
use candle_nn::VarBuilder;
use earmark::encode::parts::read_json;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde::Deserialize;

use crate::files::{Result, told};

/// Longest header of a safetensors file that is believed.
const LONGEST_HEADER: u64 = 100_000_000;

/// Tensors by name; floating-point ones only.
pub(crate) struct Weights(HashMap<String, Tensor>);

#[derive(Deserialize)]
struct Index {
    weight_map: HashMap<String, String>,
}

impl Weights {
    /// From `model.safetensors`, the files that `model.safetensors.index.json` names, or `pytorch_model.bin`.
    /// With `bfloat16`, matrices are kept as such.
    pub(crate) fn read(folder: &Path, bfloat16: bool) -> Result<Self> {
        let mut tensors = HashMap::new();
        let mut keep = |name: String, tensor: Tensor| {
            let tensor = if bfloat16 && tensor.rank() == 2 { tensor.to_dtype(DType::BF16) } else { Ok(tensor) };
            tensors.insert(name, tensor.map_err(told)?);
            Ok(())
        };
        let (single, torch) = (folder.join("model.safetensors"), folder.join("pytorch_model.bin"));
        let index: Option<Index> = read_json(&folder.join("model.safetensors.index.json"))?;
        match index {
            _ if single.is_file() => read_safetensors(&single, &mut keep)?,
            Some(index) => {
                let files: BTreeSet<&String> = index.weight_map.values().collect();
                files.into_iter().try_for_each(|file| read_safetensors(&folder.join(file), &mut keep))?;
            }
            None if torch.is_file() => read_torch(&torch, &mut keep)?,
            None => {
                return Err(format!(
                    "{} has none of model.safetensors, model.safetensors.index.json and pytorch_model.bin",
                    folder.display()
                ));
            }
        }
        Ok(Weights(tensors))
    }

    /// Whether there is a tensor of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Takes a tensor out.
    pub(crate) fn take(&mut self, name: &str, shape: &[usize]) -> Result<Tensor> {
        let tensor = self.0.remove(name).ok_or_else(|| format!("the weights have no tensor `{name}`"))?;
        if tensor.dims() != shape {
            return Err(format!("tensor `{name}` is {:?}, but config.json asks for {shape:?}", tensor.dims()));
        }
        Ok(tensor)
    }

    /// Takes a tensor out, as float32.
    pub(crate) fn take_f32(&mut self, name: &str, shape: &[usize]) -> Result<Tensor> {
        self.take(name, shape)?.to_dtype(DType::F32).map_err(told)
    }

    /// All of them, as candle's models take them.
    pub(crate) fn into_builder(self) -> VarBuilder<'static> {
        VarBuilder::from_tensors(self.0, DType::F32, &Device::Cpu)
    }
}

/// What to do with each tensor that was read.
type Keep<'a> = dyn FnMut(String, Tensor) -> Result<()> + 'a;

/// Reads tensor by tensor, so that a large file is not in memory twice.
fn read_safetensors(path: &Path, keep: &mut Keep<'_>) -> Result<()> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}; download it again", path.display());
    let mut file = File::open(path).map(BufReader::new).map_err(|error| wrong(&error))?;
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(|error| wrong(&error))?;
    let length = u64::from_le_bytes(length);
    if length > LONGEST_HEADER {
        return Err(wrong(&"it is not a safetensors file"));
    }
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header).map_err(|error| wrong(&error))?;
    let metadata: Metadata = serde_json::from_slice(&header).map_err(|error| wrong(&error))?;
    for (name, info) in metadata.tensors() {
        let Some(kind) = kind_of(info.dtype) else { continue };
        let tensor = read_tensor(&mut file, 8 + length, info, kind).map_err(|error| wrong(&error))?;
        keep(name, tensor)?;
    }
    Ok(())
}

fn read_tensor(file: &mut (impl Read + Seek), start: u64, info: &TensorInfo, kind: DType) -> Result<Tensor> {
    let (from, to) = info.data_offsets;
    let held = file.seek(SeekFrom::End(0)).map_err(told)?;
    if to < from || start + to as u64 > held {
        return Err("it ends too early".into());
    }
    file.seek(SeekFrom::Start(start + from as u64)).map_err(told)?;
    let mut bytes = vec![0; to - from];
    file.read_exact(&mut bytes).map_err(told)?;
    Tensor::from_raw_buffer(&bytes, kind, &info.shape, &Device::Cpu).map_err(told)
}

/// Nothing for integers, which are positions and the like.
fn kind_of(dtype: Dtype) -> Option<DType> {
    match dtype {
        Dtype::F32 => Some(DType::F32),
        Dtype::F16 => Some(DType::F16),
        Dtype::BF16 => Some(DType::BF16),
        _ => None,
    }
}

fn read_torch(path: &Path, keep: &mut Keep<'_>) -> Result<()> {
    let tensors = pickle::read_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let float = |tensor: &Tensor| matches!(tensor.dtype(), DType::F32 | DType::F16 | DType::BF16);
    tensors.into_iter().filter(|(_, tensor)| float(tensor)).try_for_each(|(name, tensor)| keep(name, tensor))
}
