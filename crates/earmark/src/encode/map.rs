//! Read-only memory maps of files.
#![allow(unsafe_code)]

use std::fs::File;
use std::ops::Deref;
use std::path::Path;

use crate::error::{Error, Result};

/// The bytes of a file, mapped when read; empty for an empty file.
pub(super) struct Map(Option<memmap2::Mmap>);

impl Map {
    /// # Errors
    /// [`Error::Io`] when the file cannot be opened or mapped.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| Error::Io { path: path.into(), reason: error.to_string() })?;
        Map::of(&file).map_err(|error| Error::Io { path: path.into(), reason: error.to_string() })
    }

    /// Maps what an open file holds at this moment.
    pub(super) fn of(file: &File) -> std::io::Result<Self> {
        if file.metadata()?.len() == 0 {
            return Ok(Map(None));
        }
        // SAFETY: the bytes are only read, and every reader checks lengths and checksums before it uses them.
        // The files of this crate are replaced or appended to, never cut, while in use; a model file that
        // somebody cuts while it is read ends the process, as with every memory map.
        Ok(Map(Some(unsafe { memmap2::Mmap::map(file)? })))
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}
