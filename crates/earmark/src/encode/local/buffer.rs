//! Float buffers that start on a cache line.

use std::ops::{Deref, DerefMut};

/// Floats in one cache line; also the granularity of the row strides of this module.
pub(super) const LINE: usize = 16;

/// A fixed number of floats whose first one stands at the start of a cache line, so that no vector load
/// of a kernel straddles two lines.
pub(super) struct Buffer {
    values: Vec<f32>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// `len` zeros.
    pub(super) fn zeros(len: usize) -> Self {
        let values = vec![0.0f32; len + LINE];
        let start = values.as_ptr().align_offset(LINE * size_of::<f32>()).min(LINE);
        Buffer { values, start, len }
    }

    /// Makes it `len` floats long, with unspecified values; memory is only ever added.
    pub(super) fn resize(&mut self, len: usize) {
        match len + LINE <= self.values.len() {
            true => self.len = len,
            false => *self = Buffer::zeros(len),
        }
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.values[self.start..self.start + self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values[self.start..self.start + self.len]
    }
}
