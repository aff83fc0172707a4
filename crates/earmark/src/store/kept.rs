//! Scopes that are asked for again: which rows pass, kept in memory.
//!
//! Of a scope that many memories pass no index can list the rows quickly, and asking candidates one by one costs more
//! than no filter at all. A list that is kept makes such a scope no dearer than none, and mostly cheaper.

use std::sync::{Arc, Mutex};

use rusqlite::Connection;

use super::Row;
use super::database::{Attempt, lock};
use super::scope::list_after;
use crate::record::Scope;

/// Scopes that are remembered.
const MOST_KEPT: usize = 16;
/// How often a scope is asked for before its rows are listed. One recall asks twice, once for each arm.
const WORTH_KEEPING: u32 = 3;

/// Key of the number in `meta` that grows whenever a stored memory is changed in place.
pub(crate) const CHANGES: &str = "changes";

/// A set of rows, one bit each.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowSet {
    bits: Vec<u64>,
}

impl RowSet {
    /// Rows count from 1 up.
    fn insert(&mut self, row: Row) {
        let (word, bit) = (row.0 as usize / 64, row.0 % 64);
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= 1 << bit;
    }

    /// Whether the row is in it.
    pub(crate) fn contains(&self, row: Row) -> bool {
        self.bits.get(row.0 as usize / 64).is_some_and(|word| word >> (row.0 % 64) & 1 == 1)
    }
}

/// A scope, and which rows pass it if it was listed.
#[derive(Debug)]
struct Kept {
    scope: Scope,
    /// [`CHANGES`] since when it is counted how often it is asked for.
    changes: i64,
    asked: u32,
    listing: Listing,
}

/// The rows of a scope, up to one row.
#[derive(Debug, Clone, Default)]
struct Listing {
    rows: Arc<RowSet>,
    /// The newest row that was looked at; rows are never given out twice.
    through: i64,
}

/// The scopes asked for last, the latest in front.
#[derive(Debug, Default)]
pub(crate) struct KeptScopes(Mutex<Vec<Kept>>);

impl KeptScopes {
    /// Has the rows of `scope` listed when it is asked for often enough; `changes` is [`CHANGES`] now.
    pub(crate) fn note(&self, scope: &Scope, changes: i64) {
        let mut scopes = lock(&self.0);
        if scopes.iter().all(|kept| kept.scope != *scope) {
            scopes.insert(0, Kept { scope: scope.clone(), changes, asked: 1, listing: Listing::default() });
            scopes.truncate(MOST_KEPT);
        }
    }

    /// The rows that pass a scope that was noted, once it was asked for often enough since a memory was last changed in
    /// place. Rows that were deleted since may be among them.
    pub(crate) fn rows(&self, snapshot: &Connection, scope: &Scope, changes: i64) -> Attempt<Option<Arc<RowSet>>> {
        let Some(listing) = self.asked_for(scope, changes) else { return Ok(None) };
        let current = brought_up_to_date(listing, snapshot, scope)?;
        let rows = Arc::clone(&current.rows);
        let mut scopes = lock(&self.0);
        if let Some(kept) = scopes.iter_mut().find(|kept| kept.scope == *scope && kept.changes == changes) {
            kept.listing = current;
        }
        Ok(Some(rows))
    }

    fn asked_for(&self, scope: &Scope, changes: i64) -> Option<Listing> {
        let mut scopes = lock(&self.0);
        let at = scopes.iter().position(|kept| kept.scope == *scope)?;
        scopes[..=at].rotate_right(1);
        let kept = &mut scopes[0];
        if kept.changes != changes {
            // It is counted anew, so that memories that change all the time do not cost a listing each time.
            (kept.changes, kept.asked, kept.listing) = (changes, 0, Listing::default());
        }
        kept.asked = kept.asked.saturating_add(1);
        (kept.asked >= WORTH_KEEPING).then(|| kept.listing.clone())
    }
}

/// Adds the rows that are newer than the listing.
fn brought_up_to_date(mut listing: Listing, snapshot: &Connection, scope: &Scope) -> Attempt<Listing> {
    let mut statement = snapshot.prepare_cached("SELECT ifnull(max(row), 0) FROM memories")?;
    let newest: i64 = statement.query_row([], |row| row.get(0))?;
    if listing.through < newest {
        let rows = Arc::make_mut(&mut listing.rows);
        list_after(snapshot, scope, Row(listing.through))?.into_iter().for_each(|row| rows.insert(row));
        listing.through = newest;
    }
    Ok(listing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_rows() {
        let mut rows = RowSet::default();
        [1, 63, 64, 1_000].into_iter().for_each(|row| rows.insert(Row(row)));
        let contained: Vec<i64> = (0..2_000).filter(|row| rows.contains(Row(*row))).collect();
        assert_eq!(contained, [1, 63, 64, 1_000]);
    }
}
