//! Opens a file of a data set, packed or plain.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use lzma_rust2::XzReader;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The whole of the JSON file `folder/name` or `folder/name.xz`.
pub(super) fn json<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<T> {
    let (path, mut reader) = open(folder, name)?;
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).with_context(|| format!("{} cannot be unpacked", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("{} is not the JSON expected", path.display()))
}

/// The lines of `folder/name` or `folder/name.xz`, one JSON value each; blank lines are skipped.
pub(super) fn json_lines<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<Vec<T>> {
    let (path, reader) = open(folder, name)?;
    let mut values = Vec::new();
    for (index, line) in reader.lines().enumerate() {
        let here = || format!("{} line {}", path.display(), index + 1);
        let line = line.with_context(here)?;
        if !line.trim().is_empty() {
            values.push(serde_json::from_str(&line).with_context(here)?);
        }
    }
    Ok(values)
}

/// An answer: sources write some of them as numbers.
pub(super) fn answer(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Whether `folder` has the file, packed or plain.
pub(super) fn exists(folder: &Path, name: &str) -> bool {
    folder.join(name).is_file() || packed(folder, name).is_file()
}

fn packed(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.xz"))
}

fn open(folder: &Path, name: &str) -> Result<(PathBuf, Box<dyn BufRead>)> {
    let plain = folder.join(name);
    if plain.is_file() {
        let file = File::open(&plain).with_context(|| plain.display().to_string())?;
        return Ok((plain, Box::new(BufReader::new(file))));
    }
    let packed = packed(folder, name);
    if !packed.is_file() {
        bail!(
            "neither {} nor {} exists; name the folder of the data sets with --data or EARMARK_LAB_DATA",
            plain.display(),
            packed.display()
        );
    }
    let file = File::open(&packed).with_context(|| packed.display().to_string())?;
    let unpacked = XzReader::new(BufReader::new(file), true);
    Ok((packed, Box::new(BufReader::with_capacity(1 << 16, unpacked))))
}
