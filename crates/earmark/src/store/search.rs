//! Exact search by cosine: a pass over the byte codes, then the true scores of those that may be among the best.

use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLockReadGuard};

use rusqlite::{Connection, OptionalExtension};

use super::bank::{Bank, Mark, Place};
use super::database::{Attempt, meta_number};
use super::kept::{CHANGES, RowSet};
use super::memories::{unit, wrong_dimension};
use super::quantize::{Codes, error_margin, quantize};
use super::raw::dot_codes;
use super::scope::{self, Checker, Listed};
use super::segment::Entries;
use super::shortlist::Shortlist;
use super::{Hit, Row, Store, pack};
use crate::error::Result;
use crate::lexical::Moments;
use crate::record::Scope;
use crate::vector::{dot, prefetch};

/// Memories asked to learn what share of them a scope has.
const SAMPLE: usize = 32;
/// So many that pass are enough to tell the share.
const TELLING: usize = 4;
/// A share of the sample above which it is cheaper to ask the best ones one by one than to list all.
const COMMON: f64 = 0.07;
/// Longest list to ask one by one before the whole scope is listed instead.
const MOST_ASKED: usize = 8_192;

/// What is left of a scope once the index was asked.
pub(crate) enum Allowed<'c> {
    /// Every memory.
    Everything,
    /// These, or some of these.
    Listed(Listed),
    /// Those of this set.
    Kept(Arc<RowSet>),
    /// Ask for each; about this share passes.
    Ask(f64, Checker<'c>),
}

impl Store {
    /// The `k` memories of the scope whose vectors have the largest cosine with `query` `[d]`; best first,
    /// ties by lower row. The scope is applied first: fewer than `k` come back only if it has fewer.
    ///
    /// # Errors
    /// [`crate::Error::InvalidInput`] for a query of the wrong length or with numbers that are not finite.
    pub fn search(&self, query: &[f32], k: usize, scope: &Scope) -> Result<Vec<Hit>> {
        let query = unit(query.to_vec(), "query_vector")?;
        self.database.read(|snapshot| {
            for _ in 0..2 {
                let bank = self.bank(snapshot)?;
                if bank.len() == 0 || k == 0 {
                    return Ok(Vec::new());
                }
                if bank.dimension() != query.len() {
                    return Err(wrong_dimension("query_vector", bank.dimension(), query.len()).into());
                }
                let search = Search { bank: &bank, snapshot, query: &query, codes: quantize(&query), k };
                if let Some(hits) = search.run(scope, self.allowed(snapshot, &bank, scope)?)? {
                    return Ok(hits);
                }
                bank.drop_damaged();
                drop(bank);
                self.forget_bank();
            }
            Err(self.database.corrupt("its vector segments are damaged and could not be rebuilt").into())
        })
    }

    /// The vectors `[d]` of these rows, unit norm, in order; empty for a row that is gone.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn vectors(&self, rows: &[Row]) -> Result<Vec<Vec<f32>>> {
        self.database.read(|snapshot| {
            let bank = self.bank(snapshot)?;
            let vector = |row: &Row| match bank.find(*row).and_then(|place| bank.vector(place)) {
                Some(vector) => Ok(vector.to_vec()),
                None => stored_vector(snapshot, *row),
            };
            rows.iter().map(vector).collect()
        })
    }

    /// The cosines of these rows with `query` `[d]`, in order; 0 for a row that is gone.
    ///
    /// # Errors
    /// As [`Store::search`].
    pub fn cosines(&self, query: &[f32], rows: &[Row]) -> Result<Vec<f32>> {
        let query = unit(query.to_vec(), "query_vector")?;
        let cosine = |vector: &[f32]| match vector.len() == query.len() {
            true => dot(&query, vector).clamp(-1.0, 1.0),
            false => 0.0,
        };
        self.database.read(|snapshot| {
            let bank = self.bank(snapshot)?;
            let of_row = |row: &Row| match bank.find(*row).and_then(|place| bank.vector(place)) {
                Some(vector) => Ok(cosine(vector)),
                None => Ok(cosine(&stored_vector(snapshot, *row)?)),
            };
            rows.iter().map(of_row).collect()
        })
    }

    /// Mean and standard deviation of the cosine with `query` over the namespace, from up to 1,000 memories spread
    /// evenly over it.
    ///
    /// # Errors
    /// As [`Store::search`].
    pub fn cosine_moments(&self, query: &[f32]) -> Result<Moments> {
        let query = unit(query.to_vec(), "query_vector")?;
        self.database.read(|snapshot| {
            let bank = self.bank(snapshot)?;
            // A damaged vector among so many moves little: their checksums are left to the searches.
            let vectors = match bank.dimension() == query.len() {
                true => bank.sampled_vectors().chunks_exact(query.len()),
                false => [].chunks_exact(1),
            };
            let (mut sum, mut squares, mut count) = (0.0, 0.0, 0);
            let cosines = vectors.map(|vector| f64::from(dot(&query, vector)));
            for cosine in cosines.filter(|cosine| cosine.is_finite()) {
                (sum, squares, count) = (sum + cosine, squares + cosine * cosine, count + 1);
            }
            Ok(Moments::of_sums(sum, squares, count))
        })
    }

    /// The bank, at least as new as the snapshot.
    pub(crate) fn bank(&self, snapshot: &Connection) -> Attempt<RwLockReadGuard<'_, Bank>> {
        let now = Mark::read(snapshot)?;
        let bank = self.bank.read().unwrap_or_else(PoisonError::into_inner);
        if bank.mark().covers(&now) {
            return Ok(bank);
        }
        drop(bank);
        let mut bank = self.bank.write().unwrap_or_else(PoisonError::into_inner);
        if bank.mark().same_generation(&now) {
            bank.catch_up(snapshot)?;
        } else if !bank.mark().covers(&now) {
            *bank = Bank::load(&self.vectors_folder, snapshot)?;
        }
        drop(bank);
        Ok(self.bank.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets the bank go, so that the next search loads it anew.
    pub(crate) fn forget_bank(&self) {
        *self.bank.write().unwrap_or_else(PoisonError::into_inner) = Bank::default();
    }

    /// What a scope comes to; `bank` gives a sample of the memories.
    pub(crate) fn allowed<'c>(&self, snapshot: &'c Connection, bank: &Bank, scope: &Scope) -> Attempt<Allowed<'c>> {
        if scope.is_everything() {
            return Ok(Allowed::Everything);
        }
        let changes = meta_number(snapshot, CHANGES)?;
        if let Some(rows) = self.kept_scopes.rows(snapshot, scope, changes)? {
            return Ok(Allowed::Kept(rows));
        }
        let mut checker = Checker::new(snapshot, scope)?;
        let share = share_of(&mut checker, &bank.sample(SAMPLE))?;
        if share < COMMON {
            let most = (bank.len() / 16).max(5_000);
            if let Some(listed) = scope::list_selective(snapshot, scope, most)? {
                return Ok(Allowed::Listed(listed));
            }
        }
        self.kept_scopes.note(scope, changes);
        Ok(Allowed::Ask(share.max(1.0 / SAMPLE as f64), checker))
    }
}

/// The share of a sample that passes, from as few of it as tell.
fn share_of(checker: &mut Checker<'_>, sample: &[Row]) -> Attempt<f64> {
    let mut passed = 0;
    // In an order that goes over all of it from the start, because what passes may be old or new.
    let order = (0..SAMPLE as u32).map(|i| (i.reverse_bits() >> (u32::BITS - SAMPLE.ilog2())) as usize);
    for (before, row) in order.filter_map(|place| sample.get(place)).enumerate() {
        passed += usize::from(checker.accepts(*row)?);
        if passed == TELLING {
            return Ok((TELLING - 1) as f64 / before as f64);
        }
    }
    Ok(passed as f64 / sample.len().max(1) as f64)
}

fn stored_vector(snapshot: &Connection, row: Row) -> Attempt<Vec<f32>> {
    let sql =
        "SELECT v.vector FROM vectors v WHERE v.row = ?1 AND v.epoch = (SELECT value FROM meta WHERE key = 'epoch')";
    let mut statement = snapshot.prepare_cached(sql)?;
    let vector = statement.query_row([row.0], |found| Ok(pack::unpack_floats(found.get_ref(0)?.as_blob()?)));
    Ok(vector.optional()?.unwrap_or_default())
}

/// Memories of a scan looked at together.
const BLOCK: usize = 512;
/// Where one of so many or more passes, all codes are read: gaps would cost more than they save.
const DENSE: usize = 3;
/// How many memories ahead of the one in hand are asked for.
const AHEAD: usize = 8;
/// Approximate score, and what has it.
type Near = (f32, (Row, Place));

/// One search over one bank; every step answers `None` if a segment turned out to be damaged.
struct Search<'a> {
    bank: &'a Bank,
    snapshot: &'a Connection,
    query: &'a [f32],
    codes: Codes,
    k: usize,
}

impl Search<'_> {
    fn run(&self, scope: &Scope, allowed: Allowed<'_>) -> Attempt<Option<Vec<Hit>>> {
        match allowed {
            Allowed::Everything => Ok(self.exact(&self.scan(self.k, None))),
            Allowed::Kept(rows) => Ok(self.exact(&self.scan(self.k, Some(&rows)))),
            Allowed::Listed(listed) if listed.exact => Ok(self.exact(&self.scan_rows(&listed.rows, self.k))),
            Allowed::Listed(listed) => {
                let list = self.scan_rows(&listed.rows, listed.rows.len());
                let passed = self.passed(&list, &mut Checker::new(self.snapshot, scope)?, true)?;
                Ok(self.exact(&passed.unwrap_or_default()))
            }
            Allowed::Ask(share, checker) => self.ask(scope, share, checker),
        }
    }

    fn shortlist(&self, want: usize) -> Shortlist<(Row, Place)> {
        Shortlist::new(want, error_margin(&self.codes, self.bank.widest_scale()))
    }

    /// The best `want` by approximate score, and those too close to call; with `only`, of these rows.
    fn scan(&self, want: usize, only: Option<&RowSet>) -> Vec<Near> {
        let mut list = self.shortlist(want);
        let mut look_at = |entries: &Entries<'_>, part: u32, at: usize| {
            let score = self.approximate(entries, at);
            let (row, place) = (Row(entries.rows[at]), Place { part, at: at as u32 });
            if score >= list.floor() && only.is_none_or(|only| only.contains(row)) && !self.bank.is_dead(place) {
                list.push(score, (row, place));
            }
        };
        let mut space = [0; BLOCK];
        for (part, entries) in self.bank.views() {
            for from in (0..entries.rows.len()).step_by(BLOCK) {
                let block = from..entries.rows.len().min(from + BLOCK);
                let sparse = only.map(|only| places_in(only, entries.rows, block.clone(), &mut space));
                match sparse.filter(|places| places.len() * DENSE < block.len()) {
                    Some(places) => {
                        for (i, &at) in places.iter().enumerate() {
                            if let Some(&ahead) = places.get(i + AHEAD) {
                                prefetch(entries.codes_of(ahead));
                            }
                            look_at(&entries, part, at);
                        }
                    }
                    // Without gaps the processor sees by itself what comes next.
                    None => block.for_each(|at| look_at(&entries, part, at)),
                }
            }
        }
        list.finish()
    }

    fn approximate(&self, entries: &Entries<'_>, at: usize) -> f32 {
        dot_codes(&self.codes.codes, entries.codes_of(at)) as f32 * entries.scales[at] * self.codes.scale
    }

    /// As [`Search::scan`], of these rows alone.
    fn scan_rows(&self, rows: &[Row], want: usize) -> Vec<Near> {
        let mut list = self.shortlist(want);
        for row in rows {
            let Some(place) = self.bank.find(*row) else { continue };
            let score = self.approximate(&self.bank.view(place.part), place.at as usize);
            list.push(score, (*row, place));
        }
        list.finish()
    }

    /// Goes down the list of all and asks of each whether it is in the scope; lists the scope if that gets long.
    fn ask(&self, scope: &Scope, share: f64, mut checker: Checker<'_>) -> Attempt<Option<Vec<Hit>>> {
        // Generous, because a second pass costs more than a long list.
        let mut want = ((self.k as f64 / share) * 3.0) as usize + 256;
        while want <= MOST_ASKED.max(2 * self.k) {
            let list = self.scan(want, None);
            let complete = list.len() >= self.bank.len();
            if let Some(passed) = self.passed(&list, &mut checker, complete)? {
                return Ok(self.exact(&passed));
            }
            want *= 4;
        }
        Ok(self.exact(&self.scan_rows(&scope::list_all(self.snapshot, scope)?, self.k)))
    }

    /// Those of the list that pass, down to where no other can be among the best `k`; `None` if the list is too short.
    fn passed(&self, list: &[Near], checker: &mut Checker<'_>, complete: bool) -> Attempt<Option<Vec<Near>>> {
        let margin = error_margin(&self.codes, self.bank.widest_scale());
        let mut passed: Vec<Near> = Vec::new();
        for item in list {
            if passed.len() >= self.k && item.0 < passed[self.k - 1].0 - margin {
                return Ok(Some(passed));
            }
            if checker.accepts(item.1.0)? {
                passed.push(*item);
            }
        }
        Ok(complete.then_some(passed))
    }

    /// The best `k` of a list by the true score.
    fn exact(&self, list: &[Near]) -> Option<Vec<Hit>> {
        let hit = |(_, (row, place)): &Near| {
            let vector = self.bank.vector(*place)?;
            Some(Hit { row: *row, score: dot(self.query, vector).clamp(-1.0, 1.0) })
        };
        let mut hits = list.iter().map(hit).collect::<Option<Vec<Hit>>>()?;
        hits.sort_by(best_first);
        hits.truncate(self.k);
        Some(hits)
    }
}

/// Where in `block` the rows of the set are. There is no branch, so that the processor reads ahead.
fn places_in<'s>(set: &RowSet, rows: &[i64], block: Range<usize>, space: &'s mut [usize; BLOCK]) -> &'s [usize] {
    let mut count = 0;
    for at in block {
        space[count] = at;
        count += usize::from(set.contains(Row(rows[at])));
    }
    &space[..count]
}

/// Order of results.
pub(crate) fn best_first(a: &Hit, b: &Hit) -> std::cmp::Ordering {
    b.score.total_cmp(&a.score).then_with(|| a.row.cmp(&b.row))
}
