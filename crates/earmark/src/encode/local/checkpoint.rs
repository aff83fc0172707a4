//! The tensors of a model file, `model.safetensors` or `pytorch_model.bin`, widened to f32.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use half::{bf16, f16};

use super::super::map::Map;
use super::torch_file;

/// What is wrong with a model file, for a person.
pub(super) type Result<T> = std::result::Result<T, String>;

/// Number formats that become f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    F32,
    F16,
    Bf16,
    F64,
    /// Integers and the like: in the file, never read.
    Other {
        size: usize,
    },
}

impl Format {
    pub(super) fn size(self) -> usize {
        match self {
            Format::F32 => 4,
            Format::F16 | Format::Bf16 => 2,
            Format::F64 => 8,
            Format::Other { size } => size,
        }
    }
}

/// Where a tensor stands in the file: row-major, without gaps.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) format: Format,
    pub(super) shape: Vec<usize>,
    pub(super) bytes: Range<usize>,
}

/// A model file with the places of its tensors.
pub(super) struct Checkpoint {
    path: PathBuf,
    map: Map,
    entries: HashMap<String, Entry>,
}

impl Checkpoint {
    /// Opens the first of `model.safetensors` and `pytorch_model.bin` in a folder.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let names = ["model.safetensors", "pytorch_model.bin"];
        let path = names.iter().map(|name| folder.join(name)).find(|path| path.is_file());
        let path = path.ok_or_else(|| format!("{} has neither {} nor {}", folder.display(), names[0], names[1]))?;
        let map = Map::open(&path).map_err(|error| error.to_string())?;
        let entries = match path.extension() {
            Some(extension) if extension == "safetensors" => safetensors_entries(&map),
            _ => torch_file::entries(&map),
        };
        let entries = entries.map_err(|reason| format!("{}: {reason}", path.display()))?;
        Ok(Checkpoint { path, map, entries })
    }

    /// Names of all tensors, in no order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Whether there is a tensor of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// Shape of a tensor.
    pub(super) fn shape(&self, name: &str) -> Result<&[usize]> {
        self.entry(name).map(|entry| entry.shape.as_slice())
    }

    /// Values of a tensor whose shape has to be `shape`, row-major.
    pub(super) fn read(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let entry = self.entry(name)?;
        if entry.shape != shape {
            let found = &entry.shape;
            return Err(format!("{}: tensor `{name}` has shape {found:?}, expected {shape:?}", self.path.display()));
        }
        let bytes = self.map.get(entry.bytes.clone());
        bytes
            .and_then(|bytes| widen(entry.format, bytes))
            .ok_or_else(|| format!("{}: tensor `{name}` is cut short or not of floats", self.path.display()))
    }

    fn entry(&self, name: &str) -> Result<&Entry> {
        self.entries.get(name).ok_or_else(|| format!("{} has no tensor `{name}`", self.path.display()))
    }
}

fn widen(format: Format, bytes: &[u8]) -> Option<Vec<f32>> {
    Some(match format {
        Format::F32 => bytes.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value)).collect(),
        Format::F16 => bytes.as_chunks().0.iter().map(|value| f16::from_le_bytes(*value).to_f32()).collect(),
        Format::Bf16 => bytes.as_chunks().0.iter().map(|value| bf16::from_le_bytes(*value).to_f32()).collect(),
        Format::F64 => bytes.as_chunks().0.iter().map(|value| f64::from_le_bytes(*value) as f32).collect(),
        Format::Other { .. } => return None,
    })
}

fn safetensors_entries(bytes: &[u8]) -> Result<HashMap<String, Entry>> {
    let (header, metadata) = safetensors::SafeTensors::read_metadata(bytes)
        .map_err(|error| format!("not a whole safetensors file ({error}); download it again"))?;
    let start = header + size_of::<u64>();
    let entry = |info: &safetensors::tensor::TensorInfo| Entry {
        format: format_of(info.dtype),
        shape: info.shape.clone(),
        bytes: start + info.data_offsets.0..start + info.data_offsets.1,
    };
    Ok(metadata.tensors().into_iter().map(|(name, info)| (name, entry(info))).collect())
}

fn format_of(dtype: safetensors::Dtype) -> Format {
    match dtype {
        safetensors::Dtype::F32 => Format::F32,
        safetensors::Dtype::F16 => Format::F16,
        safetensors::Dtype::BF16 => Format::Bf16,
        safetensors::Dtype::F64 => Format::F64,
        other => Format::Other { size: other.bitsize().div_ceil(8) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_floats_are_widened() {
        let half: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect();
        let brain: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes()).collect();
        assert_eq!(widen(Format::F16, &half), Some(vec![1.5, -2.0]));
        assert_eq!(widen(Format::Bf16, &brain), Some(vec![1.5, -2.0]));
        assert_eq!(widen(Format::Other { size: 8 }, &[0; 8]), None);
    }

    #[test]
    fn a_cut_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("model.safetensors"), [200, 0, 0, 0, 0, 0, 0, 0, b'{']).unwrap();
        let message = Checkpoint::open(folder.path()).err().unwrap();
        assert!(message.contains("not a whole safetensors file"), "{message}");
    }
}
