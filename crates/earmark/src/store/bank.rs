//! All vectors of a namespace in memory: mapped segments and the newest ones, kept in step with the database.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rusqlite::{Connection, OptionalExtension};

use super::database::{Attempt, meta_number, meta_text};
use super::quantize::quantize;
use super::segment::{self, Entries, Entry, Owner, Segment};
use super::tail::Tail;
use super::{Row, pack, stamp};

/// Vectors outside of segments before they become one.
const FLUSH_AT: usize = 4_096;
/// Vectors that stand for all.
const SAMPLED: usize = 1_000;
/// Segments are merged up to this many vectors.
const MERGE_UP_TO: usize = 65_536;

/// Where a vector is: which part of the bank, and which entry of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) part: u32,
    pub(crate) at: u32,
}

/// State of the database that a bank shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mark {
    /// Changes when all segments are void (another encoder, compaction).
    generation: i64,
    /// Which set of vectors is served.
    epoch: i64,
    /// Newest vector seen.
    seq: i64,
    /// Newest deletion seen.
    dead: i64,
}

impl Mark {
    /// As the database has it now.
    pub(crate) fn read(connection: &Connection) -> Attempt<Self> {
        // The last number given out, which does not go back when the newest row is deleted.
        let newest = |table: &str| -> Attempt<i64> {
            let mut statement = connection.prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = ?1")?;
            Ok(statement.query_row([table], |row| row.get(0)).optional()?.unwrap_or(0))
        };
        Ok(Mark {
            generation: meta_number(connection, "generation")?,
            epoch: meta_number(connection, "epoch")?,
            seq: newest("vectors")?,
            dead: newest("dead_vectors")?,
        })
    }

    /// Whether a bank at this mark shows everything that one at `other` shows.
    pub(crate) fn covers(&self, other: &Mark) -> bool {
        self.generation > other.generation
            || self.generation == other.generation && self.seq >= other.seq && self.dead >= other.dead
    }

    /// Whether [`Bank::catch_up`] is enough to get from one to the other.
    pub(crate) fn same_generation(&self, other: &Mark) -> bool {
        self.generation == other.generation
    }
}

/// A segment, and which of its entries are deleted.
#[derive(Debug)]
struct Part {
    segment: Segment,
    dead: HashSet<u32>,
}

/// The vectors of one namespace; the default is a bank from before the first generation.
#[derive(Debug, Default)]
pub(crate) struct Bank {
    folder: PathBuf,
    owner: Owner,
    mark: Mark,
    parts: Vec<Part>,
    tail: Tail,
    flush_at: usize,
    widest_scale: f32,
    /// See [`Bank::sampled_vectors`].
    sampled: OnceLock<Vec<f32>>,
}

impl Bank {
    /// Reads the segments under `folder`, drops those that cannot be used, and fills up from the database.
    pub(crate) fn load(folder: &Path, connection: &Connection) -> Attempt<Self> {
        let now = Mark::read(connection)?;
        let identity = meta_text(connection, "identity")?.unwrap_or_default();
        let stamp = stamp::read(connection)?;
        let name = format!("{identity}/{}/{}/{stamp:?}", now.generation, now.epoch);
        let hash = *blake3::hash(name.as_bytes()).as_bytes();
        let mark = u64::from_le_bytes(std::array::from_fn(|i| hash[i]));
        let mut bank = Bank {
            folder: folder.join(now.generation.to_string()),
            owner: Owner { mark, dimension: stamp.map_or(0, |stamp| stamp.dimension) },
            mark: Mark { seq: 0, dead: 0, ..now },
            parts: Vec::new(),
            tail: Tail::default(),
            flush_at: FLUSH_AT,
            widest_scale: 0.0,
            sampled: OnceLock::new(),
        };
        bank.open_segments(connection, now.seq)?;
        bank.catch_up(connection)?;
        Ok(bank)
    }

    /// What it shows.
    pub(crate) fn mark(&self) -> Mark {
        self.mark
    }

    /// Length of a vector; 0 without an encoder.
    pub(crate) fn dimension(&self) -> usize {
        self.owner.dimension
    }

    /// The largest step of any entry's codes.
    pub(crate) fn widest_scale(&self) -> f32 {
        self.widest_scale
    }

    /// Number of entries, with the deleted ones.
    pub(crate) fn len(&self) -> usize {
        self.views().map(|(_, entries)| entries.rows.len()).sum()
    }

    /// All parts, oldest first.
    pub(crate) fn views(&self) -> impl Iterator<Item = (u32, Entries<'_>)> {
        let segments = self.parts.iter().map(|part| part.segment.entries());
        segments.chain([self.tail.entries(self.owner.dimension)]).enumerate().map(|(i, entries)| (i as u32, entries))
    }

    /// One part.
    pub(crate) fn view(&self, part: u32) -> Entries<'_> {
        match self.parts.get(part as usize) {
            Some(part) => part.segment.entries(),
            None => self.tail.entries(self.owner.dimension),
        }
    }

    /// Whether the entry is deleted.
    pub(crate) fn is_dead(&self, place: Place) -> bool {
        match self.parts.get(place.part as usize) {
            Some(part) => part.dead.contains(&place.at),
            None => self.tail.dead.contains(&place.at),
        }
    }

    /// Where the vector of `row` is.
    pub(crate) fn find(&self, row: Row) -> Option<Place> {
        let tail = self.parts.len() as u32;
        let in_tail = self.tail.place_of.get(&row.0).map(|at| Place { part: tail, at: *at });
        let in_part = |(part, view): (u32, Entries<'_>)| {
            let at = find_in(view.rows, row.0)? as u32;
            Some(Place { part, at }).filter(|place| !self.is_dead(*place))
        };
        let segments = || self.parts.iter().enumerate().rev().map(|(i, part)| (i as u32, part.segment.entries()));
        in_tail.filter(|place| !self.is_dead(*place)).or_else(|| segments().find_map(in_part))
    }

    /// The vector at `place`; `None` if its file is damaged.
    pub(crate) fn vector(&self, place: Place) -> Option<&[f32]> {
        let whole =
            self.parts.get(place.part as usize).is_none_or(|part| part.segment.vector_is_whole(place.at as usize));
        whole.then(|| self.view(place.part).vector_of(place.at as usize))
    }

    /// Up to `count` living rows, evenly spread.
    pub(crate) fn sample(&self, count: usize) -> Vec<Row> {
        self.sample_places(count).into_iter().map(|place| Row(self.view(place.part).rows[place.at as usize])).collect()
    }

    /// Where up to `count` living vectors are, evenly spread.
    fn sample_places(&self, count: usize) -> Vec<Place> {
        let step = self.len().div_ceil(count.max(1)).max(1);
        let mut places = Vec::with_capacity(count);
        let mut next = 0;
        for (part, entries) in self.views() {
            while next < entries.rows.len() {
                let place = Place { part, at: next as u32 };
                if !self.is_dead(place) {
                    places.push(place);
                }
                next += step;
            }
            next -= entries.rows.len();
        }
        places
    }

    /// Vectors `[n x d]` that stand for all, from places evenly spread; kept side by side, because each is on a page of
    /// its own.
    pub(crate) fn sampled_vectors(&self) -> &[f32] {
        let vector_of = |place: &Place| self.view(place.part).vector_of(place.at as usize);
        self.sampled.get_or_init(|| self.sample_places(SAMPLED).iter().flat_map(vector_of).copied().collect())
    }

    /// Opens the longest chain of usable segments from the first sequence number on, and removes other files.
    fn open_segments(&mut self, connection: &Connection, newest: i64) -> Attempt<()> {
        let mut files = list_segments(&self.folder);
        let mut next = 1;
        while let Some((range, path)) = best_from(&files, next) {
            files.retain(|(_, other)| *other != path);
            let usable = range.1 <= newest && self.open_segment(connection, &path)?;
            if usable {
                next = range.1 + 1;
            } else {
                let _ = fs::remove_file(path);
            }
        }
        for (_, path) in files {
            let _ = fs::remove_file(path);
        }
        self.mark.seq = next - 1;
        Ok(())
    }

    fn open_segment(&mut self, connection: &Connection, path: &Path) -> Attempt<bool> {
        let Ok(segment) = Segment::open(path, self.owner) else { return Ok(false) };
        let count = segment.entries().rows.len();
        let wiped: HashSet<u32> = (0..count).filter(|at| segment.is_wiped(*at)).map(|at| at as u32).collect();
        let whole = (0..count).all(|at| wiped.contains(&(at as u32)) || segment.codes_are_whole(at));
        if !whole || !same_as_database(connection, &segment, &wiped)? {
            return Ok(false);
        }
        self.add_part(Part { segment, dead: wiped });
        Ok(true)
    }

    fn add_part(&mut self, part: Part) {
        let scales = part.segment.entries().scales.iter();
        self.widest_scale = scales.fold(self.widest_scale, |widest, scale| widest.max(*scale));
        self.parts.push(part);
    }

    /// Takes in what the database has beyond [`Bank::mark`]; the generation and the epoch must be the same.
    pub(crate) fn catch_up(&mut self, connection: &Connection) -> Attempt<()> {
        let now = Mark::read(connection)?;
        // Before the new vectors, so that no segment gets two vectors of one memory.
        self.apply_deletions(connection)?;
        self.mark.dead = self.mark.dead.max(now.dead);
        let sql = "SELECT seq, row, vector FROM vectors WHERE seq > ?1 AND epoch = ?2 ORDER BY seq";
        let mut statement = connection.prepare_cached(sql)?;
        let mut found = statement.query([self.mark.seq, self.mark.epoch])?;
        while let Some(vector) = found.next()? {
            let numbers = pack::unpack_floats(vector.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?);
            if numbers.len() == self.owner.dimension {
                self.push(vector.get(0)?, vector.get(1)?, &numbers);
            }
        }
        self.mark.seq = self.mark.seq.max(now.seq);
        Ok(())
    }

    fn push(&mut self, seq: i64, row: i64, vector: &[f32]) {
        let codes = quantize(vector);
        self.widest_scale = self.widest_scale.max(codes.scale);
        self.tail.push(seq, row, vector, &codes.codes, codes.scale);
        self.sampled.take();
        self.mark.seq = seq;
        self.flush_if_long();
    }

    fn apply_deletions(&mut self, connection: &Connection) -> Attempt<()> {
        let sql = "SELECT seq, row FROM dead_vectors WHERE id > ?1 ORDER BY id";
        let mut statement = connection.prepare_cached(sql)?;
        let mut found = statement.query([self.mark.dead])?;
        let mut wipe: HashMap<usize, Vec<usize>> = HashMap::new();
        while let Some(dead) = found.next()? {
            if let Some((part, at)) = self.bury(dead.get(0)?, dead.get(1)?) {
                wipe.entry(part).or_default().push(at);
            }
        }
        for (part, places) in wipe {
            // A file that cannot be written keeps the numbers, but nobody is shown them.
            let _ = self.parts[part].segment.wipe(&places);
        }
        Ok(())
    }

    /// Marks a vector as deleted; returns the segment entry to wipe, if it is in a segment and not wiped.
    fn bury(&mut self, seq: i64, row: i64) -> Option<(usize, usize)> {
        self.sampled.take();
        if let Some(at) = self.tail.seqs.iter().position(|s| *s == seq) {
            self.tail.bury(at);
            return None;
        }
        let (i, part) = self
            .parts
            .iter_mut()
            .enumerate()
            .find(|(_, part)| (part.segment.range.0..=part.segment.range.1).contains(&seq))?;
        let entries = part.segment.entries();
        let at = find_in(entries.rows, row).filter(|at| entries.seqs[*at] == seq)?;
        part.dead.insert(at as u32).then_some((i, at))
    }

    fn flush_if_long(&mut self) {
        if self.tail.rows.len() >= self.flush_at && self.flush().is_err() {
            // A cache that cannot be written is no reason to fail; it stays in memory.
            self.flush_at *= 2;
        }
    }

    /// Makes the tail a segment, together with as many segments before it as are not much longer.
    fn flush(&mut self) -> Result<(), String> {
        let mut count = self.tail.rows.len();
        let mut keep = self.parts.len();
        while let Some(before) = keep.checked_sub(1).map(|i| self.parts[i].segment.entries().rows.len()) {
            if before > 2 * count || before + count > MERGE_UP_TO {
                break;
            }
            (count, keep) = (count + before, keep - 1);
        }
        let from = keep.checked_sub(1).map_or(1, |last| self.parts[last].segment.range.1 + 1);
        let segment = self.write_segment(keep, (from, self.mark.seq))?;
        for part in self.parts.drain(keep..) {
            if part.segment.path() != segment.path() {
                let _ = fs::remove_file(part.segment.path());
            }
        }
        self.add_part(Part { segment, dead: HashSet::new() });
        self.tail = Tail::default();
        self.flush_at = FLUSH_AT;
        Ok(())
    }

    fn write_segment(&self, keep: usize, range: (i64, i64)) -> Result<Segment, String> {
        let mut entries = Vec::new();
        for (part, view) in self.views().skip(keep) {
            for at in 0..view.rows.len() {
                let place = Place { part, at: at as u32 };
                if self.is_dead(place) {
                    continue;
                }
                let vector = self.vector(place).ok_or("a segment is damaged")?;
                entries.push(Entry { row: view.rows[at], seq: view.seqs[at], vector });
            }
        }
        entries.sort_by_key(|entry| entry.row);
        fs::create_dir_all(&self.folder).map_err(|e| e.to_string())?;
        let path = self.folder.join(format!("{}-{}.vec", range.0, range.1));
        segment::write(&path, self.owner, range, &entries).map_err(|e| e.to_string())?;
        Segment::open(&path, self.owner)
    }

    /// Removes the files of segments with damaged entries, so that the next load makes them anew.
    pub(crate) fn drop_damaged(&self) {
        for (path, _) in self.damage() {
            let _ = fs::remove_file(path);
        }
    }

    /// Segment files with entries that are not as written, and how many.
    pub(crate) fn damage(&self) -> Vec<(&Path, usize)> {
        let damaged = |part: &Part| {
            let living = (0..part.segment.entries().rows.len()).filter(|at| !part.dead.contains(&(*at as u32)));
            living.filter(|at| !part.segment.codes_are_whole(*at) || !part.segment.vector_is_whole(*at)).count()
        };
        let counts = self.parts.iter().map(|part| (part.segment.path(), damaged(part)));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// Living rows, for comparison with the database.
    pub(crate) fn living(&self) -> HashSet<i64> {
        let rows = self.views().flat_map(|(part, view)| {
            let alive = move |at: &usize| !self.is_dead(Place { part, at: *at as u32 });
            (0..view.rows.len()).filter(alive).map(move |at| view.rows[at])
        });
        rows.collect()
    }
}

/// The files named `FROM-TO.vec`, with what they cover.
fn list_segments(folder: &Path) -> Vec<((i64, i64), PathBuf)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let parse = |path: PathBuf| {
        let (from, to) = path.file_name()?.to_str()?.strip_suffix(".vec")?.split_once('-')?;
        Some(((from.parse().ok()?, to.parse().ok()?), path))
    };
    entries.flatten().filter_map(|entry| parse(entry.path())).collect()
}

/// The longest segment that starts at `from`.
fn best_from(files: &[((i64, i64), PathBuf)], from: i64) -> Option<((i64, i64), PathBuf)> {
    files.iter().filter(|(range, _)| range.0 == from && range.1 >= from).max_by_key(|(range, _)| range.1).cloned()
}

/// Where `row` is among ascending rows. Without gaps it is as far from the start as its number is; with gaps, nearer.
fn find_in(rows: &[i64], row: i64) -> Option<usize> {
    let (first, last) = (*rows.first()?, *rows.last()?);
    if !(first..=last).contains(&row) {
        return None;
    }
    let most = usize::try_from(row.abs_diff(first)).unwrap_or(usize::MAX).min(rows.len());
    match rows.get(most) {
        Some(found) if *found == row => Some(most),
        _ => rows[..most].binary_search(&row).ok(),
    }
}

/// Whether the last living entry is the vector that the database has. It is not, if the database
/// was put back to an older copy and has since given its sequence numbers to other vectors.
fn same_as_database(connection: &Connection, segment: &Segment, wiped: &HashSet<u32>) -> Attempt<bool> {
    let entries = segment.entries();
    let sql = "SELECT vector FROM vectors WHERE seq = ?1 AND row = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    for at in (0..entries.rows.len()).rev().filter(|at| !wiped.contains(&(*at as u32))) {
        let sum = |row: &rusqlite::Row<'_>| Ok(crc32fast::hash(row.get_ref(0)?.as_blob()?));
        if let Some(sum) = statement.query_row([entries.seqs[at], entries.rows[at]], sum).optional()? {
            return Ok(sum == segment.vector_sum(at));
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_with_and_without_gaps() {
        for rows in [&[][..], &[5], &[5, 6, 7, 8], &[1, 2, 6, 7, 100], &[-3, 0, i64::MAX]] {
            for row in (-5..110).chain([i64::MIN, i64::MAX - 1, i64::MAX]) {
                assert_eq!(find_in(rows, row), rows.iter().position(|other| *other == row), "{row} in {rows:?}");
            }
        }
    }
}
