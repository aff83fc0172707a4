//! The one place with `unsafe`: files as memory, and numbers within them.
#![allow(unsafe_code)]

use std::fs::File;
use std::path::Path;

use memmap2::{Advice, Mmap};

use super::errors::io_error;
use crate::error::Result;

/// A whole file as read-only memory.
#[derive(Debug)]
pub(crate) struct MappedFile {
    map: Mmap,
}

/// Plain numbers for which any bits are a value.
pub(crate) trait Plain: Copy + 'static {}
impl Plain for i8 {}
impl Plain for u32 {}
impl Plain for i64 {}
impl Plain for f32 {}

impl MappedFile {
    /// Maps the file at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| io_error(path, &e))?;
        // SAFETY: segment files are written under another name, renamed, and never shortened or written
        // again, but for zeros over an entry that is deleted; any bits are a value of the types read here,
        // so a foreign change can give a wrong number (which checksums find), not an invalid one.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| io_error(path, &e))?;
        let _ = map.advise(Advice::WillNeed);
        Ok(MappedFile { map })
    }

    /// The file's bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// `count` numbers from byte `offset`; `None` if they do not lie aligned within the file.
    pub(crate) fn numbers<T: Plain>(&self, offset: usize, count: usize) -> Option<&[T]> {
        let length = count.checked_mul(size_of::<T>())?;
        let bytes = self.map.get(offset..offset.checked_add(length)?)?;
        // SAFETY: `Plain` types have no invalid bits; `align_to` puts unaligned parts before and after.
        let (before, numbers, after) = unsafe { bytes.align_to::<T>() };
        (before.is_empty() && after.is_empty()).then_some(numbers)
    }
}
