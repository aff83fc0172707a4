//! The word index in the database: which texts have a word, kept in the same transaction as the texts.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};

use super::Row;
use super::database::{Attempt, add_meta, meta_number};
use super::postings::{self, Posting, push_varint, take_varint};
use crate::lexical::Collection;

/// Blocks grow to this many bytes; larger ones would leave their page of the database.
const BLOCK_BYTES: usize = 900;

/// The words of one text, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Document {
    /// Frequency of each word.
    pub(crate) counts: BTreeMap<String, u32>,
    /// Words in all.
    pub(crate) length: u32,
}

impl Document {
    /// Counts the words of `text`.
    pub(crate) fn new(text: &str) -> Self {
        let mut document = Document::default();
        for word in crate::lexical::words(text) {
            *document.counts.entry(word).or_default() += 1;
            document.length = document.length.saturating_add(1);
        }
        document
    }
}

/// A word of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Term {
    /// Its number.
    pub(crate) id: i64,
    /// How many texts have it.
    pub(crate) texts: u64,
}

/// Terms of one text with their frequencies, by term.
pub(crate) type TermCounts = Vec<(i64, u32)>;

/// Adds texts, which must not be in the index, in ascending row order.
pub(crate) fn add(connection: &Connection, documents: &[(Row, Document)]) -> Attempt<()> {
    let mut by_term: BTreeMap<&str, Vec<Posting>> = BTreeMap::new();
    for (row, document) in documents {
        for (word, &frequency) in &document.counts {
            let posting = Posting { row: row.0, frequency, length: document.length };
            by_term.entry(word).or_default().push(posting);
        }
    }
    let mut ids = BTreeMap::new();
    for (word, postings) in by_term {
        let id = count_term(connection, word, postings.len() as i64)?;
        edit(connection, id, &postings, &[])?;
        ids.insert(word, id);
    }
    for (row, document) in documents {
        add_document(connection, *row, document, &ids)?;
    }
    let length = documents.iter().map(|(_, document)| i64::from(document.length)).sum();
    add_meta(connection, "words", length)?;
    Ok(())
}

fn count_term(connection: &Connection, word: &str, more: i64) -> Attempt<i64> {
    let sql = "INSERT INTO terms (term, texts) VALUES (?1, ?2)
               ON CONFLICT (term) DO UPDATE SET texts = texts + excluded.texts RETURNING id";
    Ok(connection.prepare_cached(sql)?.query_row(params![word, more], |row| row.get(0))?)
}

fn add_document(connection: &Connection, row: Row, document: &Document, ids: &BTreeMap<&str, i64>) -> Attempt<()> {
    let mut terms: Vec<(i64, u32)> = document.counts.iter().map(|(word, count)| (ids[word.as_str()], *count)).collect();
    terms.sort_unstable();
    let sql = "INSERT INTO documents (row, length, terms) VALUES (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute(params![row.0, document.length, pack_terms(&terms)])?;
    Ok(())
}

/// Takes texts out of the index.
pub(crate) fn remove(connection: &Connection, rows: &[Row]) -> Attempt<()> {
    let mut by_term: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    let mut length = 0;
    let mut sorted = rows.to_vec();
    sorted.sort_unstable();
    for row in sorted {
        let Some((words, terms)) = document(connection, row)? else { continue };
        length += i64::from(words);
        terms.iter().for_each(|(term, _)| by_term.entry(*term).or_default().push(row.0));
        connection.prepare_cached("DELETE FROM documents WHERE row = ?1")?.execute([row.0])?;
    }
    for (term, rows) in by_term {
        edit(connection, term, &[], &rows)?;
        let less = "UPDATE terms SET texts = texts - ?2 WHERE id = ?1";
        connection.prepare_cached(less)?.execute(params![term, rows.len() as i64])?;
        connection.prepare_cached("DELETE FROM terms WHERE id = ?1 AND texts <= 0")?.execute([term])?;
    }
    add_meta(connection, "words", -length)?;
    Ok(())
}

/// Length and terms of one text.
pub(crate) fn document(connection: &Connection, row: Row) -> Attempt<Option<(u32, TermCounts)>> {
    let mut statement = connection.prepare_cached("SELECT length, terms FROM documents WHERE row = ?1")?;
    let found = statement.query_row([row.0], |found| Ok((found.get(0)?, unpack_terms(found.get_ref(1)?.as_blob()?))));
    Ok(found.optional()?)
}

/// Texts and words in all.
pub(crate) fn collection(connection: &Connection) -> Attempt<Collection> {
    let texts = meta_number(connection, "memories")?.max(0) as u64;
    Ok(Collection { texts, words: meta_number(connection, "words")?.max(0) as u64 })
}

/// Looks a word up.
pub(crate) fn term(connection: &Connection, word: &str) -> Attempt<Option<Term>> {
    let mut statement = connection.prepare_cached("SELECT id, texts FROM terms WHERE term = ?1")?;
    let term = |row: &rusqlite::Row<'_>| Ok(Term { id: row.get(0)?, texts: row.get::<_, i64>(1)?.max(0) as u64 });
    Ok(statement.query_row([word], term).optional()?)
}

/// Calls `visit` for every text that has the term, in row order; `false` if a block is damaged.
pub(crate) fn for_each_posting(connection: &Connection, term: i64, mut visit: impl FnMut(Posting)) -> Attempt<bool> {
    let mut statement = connection.prepare_cached("SELECT base, block FROM postings WHERE term = ?1 ORDER BY base")?;
    let mut blocks = statement.query([term])?;
    let mut whole = true;
    while let Some(block) = blocks.next()? {
        let bytes = block.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        whole &= postings::decode(block.get(0)?, bytes, &mut visit);
    }
    Ok(whole)
}

/// Puts `add` into the blocks of a term and takes `remove` out; both in ascending row order.
fn edit(connection: &Connection, term: i64, add: &[Posting], remove: &[i64]) -> Attempt<()> {
    let (mut add, mut remove) = (add, remove);
    while let Some(first) = add.first().map(|p| p.row).into_iter().chain(remove.first().copied()).min() {
        let block = block_of(connection, term, first)?;
        let end = next_base(connection, term, block.as_ref().map_or(first, |(base, _)| *base))?;
        let (here, later) = add.split_at(add.partition_point(|posting| posting.row < end));
        let (gone, gone_later) = remove.split_at(remove.partition_point(|row| *row < end));
        rewrite(connection, term, block, here, gone)?;
        (add, remove) = (later, gone_later);
    }
    Ok(())
}

/// The block that has, or would have, `row`.
fn block_of(connection: &Connection, term: i64, row: i64) -> Attempt<Option<(i64, Vec<u8>)>> {
    let sql = "SELECT base, block FROM postings WHERE term = ?1 AND base <= ?2 ORDER BY base DESC LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row([term, row], |found| Ok((found.get(0)?, found.get(1)?))).optional()?)
}

fn next_base(connection: &Connection, term: i64, base: i64) -> Attempt<i64> {
    let sql = "SELECT base FROM postings WHERE term = ?1 AND base > ?2 ORDER BY base LIMIT 1";
    let found = connection.prepare_cached(sql)?.query_row([term, base], |found| found.get(0)).optional()?;
    Ok(found.unwrap_or(i64::MAX))
}

fn rewrite(
    connection: &Connection,
    term: i64,
    block: Option<(i64, Vec<u8>)>,
    add: &[Posting],
    remove: &[i64],
) -> Attempt<()> {
    let mut entries = Vec::new();
    if let Some((base, bytes)) = &block {
        postings::decode(*base, bytes, &mut |posting| entries.push(posting));
    }
    entries.retain(|posting| remove.binary_search(&posting.row).is_err());
    entries.extend(add);
    entries.sort_unstable_by_key(|posting| posting.row);
    let chunks = chunks(&entries);
    let bases = chunks.iter().map(|chunk| chunk[0].row);
    if let Some((base, _)) = block.filter(|(base, _)| bases.clone().all(|new| new != *base)) {
        connection.prepare_cached("DELETE FROM postings WHERE term = ?1 AND base = ?2")?.execute([term, base])?;
    }
    let sql = "INSERT INTO postings (term, base, block) VALUES (?1, ?2, ?3)
               ON CONFLICT (term, base) DO UPDATE SET block = excluded.block";
    let mut statement = connection.prepare_cached(sql)?;
    for (chunk, base) in chunks.iter().zip(bases) {
        statement.execute(params![term, base, postings::encode(base, chunk)])?;
    }
    Ok(())
}

/// Runs of entries that fill a block each; the last may be short.
fn chunks(entries: &[Posting]) -> Vec<&[Posting]> {
    let mut chunks = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (i, pair) in entries.windows(2).enumerate() {
        bytes += postings::size(pair[0].row, pair[1]);
        if bytes > BLOCK_BYTES {
            chunks.push(&entries[start..=i]);
            (start, bytes) = (i + 1, 0);
        }
    }
    if start < entries.len() {
        chunks.push(&entries[start..]);
    }
    chunks
}

fn pack_terms(terms: &[(i64, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut before = 0;
    for (term, frequency) in terms {
        push_varint(&mut bytes, (term - before) as u64);
        push_varint(&mut bytes, u64::from(*frequency));
        before = *term;
    }
    bytes
}

fn unpack_terms(mut bytes: &[u8]) -> TermCounts {
    let mut terms = Vec::new();
    let mut term = 0i64;
    while let (Some(step), Some(frequency)) = (take_varint(&mut bytes), take_varint(&mut bytes)) {
        term = term.wrapping_add(step as i64);
        terms.push((term, frequency as u32));
    }
    terms
}
