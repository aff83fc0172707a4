//! Where the tensors of a `pytorch_model.bin` stand, in both formats that PyTorch has written:
//! a zip of one pickle and one file per storage, and, before version 1.6, pickles followed by the storages.

use std::collections::HashMap;
use std::ops::Range;

use rawzip::{CompressionMethod, ZipArchive};

use super::checkpoint::{Entry, Format, Result};
use super::pickle::{self, Value};

/// Places of all tensors of the file.
pub(super) fn entries(bytes: &[u8]) -> Result<HashMap<String, Entry>> {
    match bytes.starts_with(b"PK") {
        true => zip_entries(bytes),
        false => legacy_entries(bytes),
    }
}

fn zip_entries(bytes: &[u8]) -> Result<HashMap<String, Entry>> {
    let files = zip_files(bytes).map_err(|error| format!("not a whole PyTorch file ({error}); download it again"))?;
    let find = |end: &str| files.iter().find(|(name, _)| name.ends_with(end)).map(|(_, range)| range.clone());
    let index = find("/data.pkl").ok_or("a zip file, but not one of PyTorch: it has no data.pkl")?;
    if find("/byteorder").is_some_and(|range| bytes[range].starts_with(b"big")) {
        return Err("its numbers are big-endian; save it on another machine".into());
    }
    let (value, _) = pickle::read(&bytes[index])?;
    tensors(&value, |storage| find(&format!("/data/{}", storage.key)))
}

/// Name and range of every stored file of the archive. PyTorch never compresses.
fn zip_files(bytes: &[u8]) -> std::result::Result<Vec<(String, Range<usize>)>, rawzip::Error> {
    let archive = ZipArchive::from_slice(bytes)?;
    let mut files = Vec::new();
    let mut entries = archive.entries();
    while let Some(file) = entries.next_entry()? {
        if file.compression_method() != CompressionMethod::STORE {
            continue;
        }
        let name = String::from_utf8_lossy(file.file_path().as_ref()).into_owned();
        let (start, end) = archive.get_entry(file.wayfinder())?.compressed_data_range();
        files.push((name, start as usize..end as usize));
    }
    Ok(files)
}

/// Magic number, protocol, system information, the value, the keys of the storages in the order of the file,
/// then each storage: its number of elements and their bytes.
fn legacy_entries(bytes: &[u8]) -> Result<HashMap<String, Entry>> {
    let mut at = 0;
    let mut next = || {
        let (value, len) = pickle::read(&bytes[at..])?;
        at += len;
        Ok::<_, String>((value, at))
    };
    for _ in 0..3 {
        next().map_err(|error| format!("not a PyTorch file ({error})"))?;
    }
    let (value, _) = next()?;
    let (Value::List(keys), mut at) = next()? else {
        return Err("not a PyTorch file: it has no list of storages".into());
    };
    let mut sizes = HashMap::new();
    tensors(&value, |storage| {
        sizes.insert(storage.key.to_owned(), storage.format.size());
        Some(0..usize::MAX)
    })?;
    let mut places = HashMap::new();
    for key in keys {
        let Value::Text(key) = key else { return Err("a storage without a key".into()) };
        let Some(size) = sizes.get(&*key) else { return Err(format!("storage {key} belongs to no tensor")) };
        let count = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or("the file is cut short")?;
        let len = (u64::from_le_bytes(*count) as usize).saturating_mul(*size);
        places.insert(key.to_string(), at + 8..(at + 8).saturating_add(len));
        at = (at + 8).saturating_add(len);
    }
    tensors(&value, |storage| places.get(storage.key).cloned())
}

struct Storage<'a> {
    format: Format,
    key: &'a str,
}

/// The tensors of a state dictionary, with the storages where `place` finds them.
fn tensors(
    value: &Value,
    mut place: impl FnMut(Storage<'_>) -> Option<Range<usize>>,
) -> Result<HashMap<String, Entry>> {
    let Value::Dict(items) = value else { return Err("it does not hold a dictionary of tensors".into()) };
    let mut entries = HashMap::new();
    for (key, value) in items {
        if let (Value::Text(name), Value::Tensor(arguments)) = (key, value) {
            let entry = tensor(arguments, &mut place);
            entries.insert(name.to_string(), entry.map_err(|reason| format!("tensor `{name}`: {reason}"))?);
        }
    }
    Ok(entries)
}

/// Reads the arguments `(storage, offset, shape, strides, ...)`.
fn tensor(arguments: &[Value], place: &mut impl FnMut(Storage<'_>) -> Option<Range<usize>>) -> Result<Entry> {
    let [Value::Persistent(id), Value::Int(offset), Value::Tuple(shape), Value::Tuple(strides), ..] = arguments else {
        return Err("it is put together in an unknown way".into());
    };
    let storage = storage(id)?;
    let (format, shape, strides) = (storage.format, sizes(shape)?, sizes(strides)?);
    if !is_plain(&shape, &strides) {
        return Err("its values do not follow each other; save the checkpoint again with `.contiguous()`".into());
    }
    let count = shape.iter().try_fold(1usize, |product, size| product.checked_mul(*size));
    let bytes = count.and_then(|count| count.checked_mul(format.size())).ok_or("its shape is impossible")?;
    let place = place(storage).ok_or("its values are not in the file")?;
    let start = usize::try_from(*offset).ok().and_then(|offset| offset.checked_mul(format.size()));
    let start = start.and_then(|start| start.checked_add(place.start)).ok_or("its place is impossible")?;
    match start.checked_add(bytes) {
        Some(end) if end <= place.end => Ok(Entry { format, shape, bytes: start..end }),
        _ => Err("the file is cut short".into()),
    }
}

/// Reads `("storage", type, key, device, elements)`.
fn storage(id: &Value) -> Result<Storage<'_>> {
    match id {
        Value::Tuple(parts) => match &**parts {
            [_, Value::Global(kind), Value::Text(key), ..] => Ok(Storage { format: format_of(kind)?, key }),
            _ => Err("its storage is described in an unknown way".into()),
        },
        _ => Err("its storage is described in an unknown way".into()),
    }
}

fn format_of(kind: &str) -> Result<Format> {
    Ok(match kind {
        "torch.FloatStorage" => Format::F32,
        "torch.HalfStorage" => Format::F16,
        "torch.BFloat16Storage" => Format::Bf16,
        "torch.DoubleStorage" => Format::F64,
        "torch.LongStorage" => Format::Other { size: 8 },
        "torch.IntStorage" => Format::Other { size: 4 },
        "torch.ShortStorage" => Format::Other { size: 2 },
        "torch.ByteStorage" | "torch.CharStorage" | "torch.BoolStorage" => Format::Other { size: 1 },
        other => return Err(format!("numbers of type {other} are not supported")),
    })
}

fn sizes(values: &[Value]) -> Result<Vec<usize>> {
    let size = |value: &Value| match value {
        Value::Int(size) => usize::try_from(*size).map_err(|_| "a negative size".to_owned()),
        _ => Err("a size that is no number".to_owned()),
    };
    values.iter().map(size).collect()
}

/// Whether the values are row-major without gaps.
fn is_plain(shape: &[usize], strides: &[usize]) -> bool {
    let mut expected = 1usize;
    shape.len() == strides.len()
        && shape.iter().zip(strides).rev().all(|(size, stride)| {
            let plain = *size <= 1 || *stride == expected;
            expected = expected.saturating_mul(*size);
            plain
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_strides() {
        assert!(is_plain(&[2, 3], &[3, 1]));
        assert!(is_plain(&[1, 3], &[9, 1]));
        assert!(!is_plain(&[2, 3], &[1, 2]));
        assert!(is_plain(&[], &[]));
    }
}
