//! One file of vectors: written once, mapped into memory, checked before it is believed.
//!
//! Little-endian, after a header of 64 bytes: rows `[n] i64` (ascending), sequence numbers `[n] i64`,
//! scales `[n] f32`, checksums of codes `[n] u32`, checksums of vectors `[n] u32`, then at multiples of 64
//! bytes the codes `[n x d] i8` and the vectors `[n x d] f32`. A deleted entry is overwritten with zeros.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::quantize::quantize;
use super::raw::{MappedFile, Plain};

const MAGIC: [u8; 8] = *b"EARMVEC1";
const HEADER: usize = 64;

/// Entries side by side, by place; the shape that a search walks over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entries<'a> {
    /// Length of a vector.
    pub(crate) dimension: usize,
    /// Memory of each entry.
    pub(crate) rows: &'a [i64],
    /// Sequence number of each entry's vector.
    pub(crate) seqs: &'a [i64],
    /// Step of each entry's codes.
    pub(crate) scales: &'a [f32],
    /// `[n x d]`.
    pub(crate) codes: &'a [i8],
    /// `[n x d]`, unit norm.
    pub(crate) vectors: &'a [f32],
}

impl<'a> Entries<'a> {
    /// Codes of one entry.
    pub(crate) fn codes_of(&self, at: usize) -> &'a [i8] {
        &self.codes[at * self.dimension..(at + 1) * self.dimension]
    }

    /// Vector of one entry.
    pub(crate) fn vector_of(&self, at: usize) -> &'a [f32] {
        &self.vectors[at * self.dimension..(at + 1) * self.dimension]
    }
}

/// What a file must say to belong here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Owner {
    /// Hash of namespace, generation and encoder.
    pub(crate) mark: u64,
    /// Length of a vector.
    pub(crate) dimension: usize,
}

/// A mapped segment file.
#[derive(Debug)]
pub(crate) struct Segment {
    path: PathBuf,
    map: MappedFile,
    layout: Layout,
    /// First and last sequence number that it covers, with those since deleted.
    pub(crate) range: (i64, i64),
}

/// Byte offsets of the parts.
#[derive(Debug, Clone, Copy)]
struct Layout {
    count: usize,
    dimension: usize,
    seqs: usize,
    scales: usize,
    code_sums: usize,
    vector_sums: usize,
    codes: usize,
    vectors: usize,
    end: usize,
}

impl Layout {
    /// `None` if the sizes overflow.
    fn new(count: usize, dimension: usize) -> Option<Self> {
        let seqs = HEADER.checked_add(count.checked_mul(8)?)?;
        let scales = seqs.checked_add(count * 8)?;
        let code_sums = scales.checked_add(count * 4)?;
        let vector_sums = code_sums.checked_add(count * 4)?;
        let codes = vector_sums.checked_add(count * 4)?.checked_next_multiple_of(64)?;
        let numbers = count.checked_mul(dimension)?;
        let vectors = codes.checked_add(numbers)?.checked_next_multiple_of(64)?;
        let end = vectors.checked_add(numbers.checked_mul(4)?)?;
        Some(Layout { count, dimension, seqs, scales, code_sums, vector_sums, codes, vectors, end })
    }
}

impl Segment {
    /// Maps a file and checks everything but the vectors themselves.
    ///
    /// # Errors
    /// The reason why the file cannot be used.
    pub(crate) fn open(path: &Path, owner: Owner) -> Result<Self, String> {
        let map = MappedFile::open(path).map_err(|error| error.to_string())?;
        let header = map.bytes().get(..HEADER).ok_or("it is too short")?;
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        if header[..8] != MAGIC {
            return Err("it is not a vector segment".to_owned());
        }
        if (number(8), number(16)) != (owner.mark, owner.dimension as u64) {
            return Err("it belongs to another namespace or encoder".to_owned());
        }
        let layout = Layout::new(number(24) as usize, owner.dimension).ok_or("its size is absurd")?;
        if map.bytes().len() != layout.end {
            return Err(format!("it has {} bytes instead of {}", map.bytes().len(), layout.end));
        }
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&header[..48]);
        hasher.update(&map.bytes()[HEADER..layout.codes]);
        if u64::from(hasher.finalize()) != number(48) {
            return Err("the checksum of its index is wrong".to_owned());
        }
        let range = (number(32) as i64, number(40) as i64);
        Ok(Segment { path: path.to_owned(), map, layout, range })
    }

    /// Its file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its entries.
    pub(crate) fn entries(&self) -> Entries<'_> {
        let Layout { count, dimension, seqs, scales, codes, vectors, .. } = self.layout;
        Entries {
            dimension,
            rows: self.part(HEADER, count),
            seqs: self.part(seqs, count),
            scales: self.part(scales, count),
            codes: self.part(codes, count * dimension),
            vectors: self.part(vectors, count * dimension),
        }
    }

    /// The layout was checked against the length of the file, so the part is there.
    fn part<T: Plain>(&self, offset: usize, count: usize) -> &[T] {
        self.map.numbers(offset, count).unwrap_or_default()
    }

    /// Whether the codes of an entry are those that were written.
    pub(crate) fn codes_are_whole(&self, at: usize) -> bool {
        let d = self.layout.dimension;
        let start = self.layout.codes + at * d;
        let sums: &[u32] = self.part(self.layout.code_sums, self.layout.count);
        sums[at] == crc32fast::hash(&self.map.bytes()[start..start + d])
    }

    /// Whether the vector of an entry is the one that was written.
    pub(crate) fn vector_is_whole(&self, at: usize) -> bool {
        self.vector_sum(at) == crc32fast::hash(self.vector_bytes(at))
    }

    /// Checksum of the vector of an entry, as it was written.
    pub(crate) fn vector_sum(&self, at: usize) -> u32 {
        let sums: &[u32] = self.part(self.layout.vector_sums, self.layout.count);
        sums[at]
    }

    fn vector_bytes(&self, at: usize) -> &[u8] {
        let d = self.layout.dimension * 4;
        let start = self.layout.vectors + at * d;
        &self.map.bytes()[start..start + d]
    }

    /// Whether an entry was overwritten with zeros.
    pub(crate) fn is_wiped(&self, at: usize) -> bool {
        let entries = self.entries();
        entries.scales[at] != 0.0 && entries.codes_of(at).iter().all(|code| *code == 0)
    }

    /// Overwrites entries with zeros on the disk.
    ///
    /// # Errors
    /// Those of the disk; the entries are then deleted all the same, but their numbers stay in the file.
    pub(crate) fn wipe(&self, places: &[usize]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(&self.path)?;
        let d = self.layout.dimension;
        for at in places {
            file.seek(SeekFrom::Start((self.layout.vectors + at * d * 4) as u64))?;
            file.write_all(&vec![0; d * 4])?;
            file.seek(SeekFrom::Start((self.layout.codes + at * d) as u64))?;
            file.write_all(&vec![0; d])?;
        }
        file.sync_data()
    }
}

/// One vector on its way into a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) row: i64,
    pub(crate) seq: i64,
    pub(crate) vector: &'a [f32],
}

/// Writes a segment of `entries` (ascending rows) that covers the sequence numbers `range`,
/// under another name first, so that nobody sees half a file.
pub(crate) fn write(path: &Path, owner: Owner, range: (i64, i64), entries: &[Entry<'_>]) -> io::Result<()> {
    let partial = path.with_extension(format!("{}.partial", uuid::Uuid::now_v7().simple()));
    let written = write_partial(&partial, owner, range, entries).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}

fn write_partial(path: &Path, owner: Owner, range: (i64, i64), entries: &[Entry<'_>]) -> io::Result<()> {
    let layout = Layout::new(entries.len(), owner.dimension).ok_or(io::ErrorKind::InvalidInput)?;
    let codes: Vec<_> = entries.iter().map(|entry| quantize(entry.vector)).collect();
    let bytes_of = |vector: &[f32]| super::pack::floats(vector);
    let mut index = Vec::with_capacity(layout.codes - HEADER);
    entries.iter().for_each(|entry| index.extend(entry.row.to_le_bytes()));
    entries.iter().for_each(|entry| index.extend(entry.seq.to_le_bytes()));
    codes.iter().for_each(|codes| index.extend(codes.scale.to_le_bytes()));
    codes.iter().for_each(|codes| index.extend(crc32fast::hash(&as_bytes(&codes.codes)).to_le_bytes()));
    entries.iter().for_each(|entry| index.extend(crc32fast::hash(&bytes_of(entry.vector)).to_le_bytes()));
    index.resize(layout.codes - HEADER, 0);

    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    file.write_all(&header(owner, range, entries.len(), &index))?;
    file.write_all(&index)?;
    for codes in &codes {
        file.write_all(&as_bytes(&codes.codes))?;
    }
    file.write_all(&vec![0; layout.vectors - layout.codes - entries.len() * owner.dimension])?;
    for entry in entries {
        file.write_all(&bytes_of(entry.vector))?;
    }
    file.into_inner().map_err(|error| error.into_error())?.sync_data()
}

fn header(owner: Owner, range: (i64, i64), count: usize, index: &[u8]) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    for number in [owner.mark, owner.dimension as u64, count as u64, range.0 as u64, range.1 as u64] {
        header.extend(number.to_le_bytes());
    }
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header);
    hasher.update(index);
    header.extend(u64::from(hasher.finalize()).to_le_bytes());
    header.resize(HEADER, 0);
    header
}

fn as_bytes(codes: &[i8]) -> Vec<u8> {
    codes.iter().map(|code| *code as u8).collect()
}
