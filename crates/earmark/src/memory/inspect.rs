//! Looking at a namespace: lists, counts, health.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::Namespace;
use crate::{
    error::{Error, Result},
    record::{Memory, Scope},
    store::Row,
};

/// A namespace in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Overview {
    /// Its name.
    pub namespace: String,
    /// Memories.
    pub memories: u64,
    /// Recalls ever asked.
    pub recalls: u64,
    /// Recalls closed by feedback.
    pub closed: u64,
    /// The encoder it belongs to; `None` before the first memory.
    pub encoder: Option<String>,
    /// Bytes on disk.
    pub disk_bytes: u64,
}

impl Namespace {
    /// One memory.
    ///
    /// # Errors
    /// [`Error::NotFound`]; storage errors.
    pub fn get(&self, id: &str) -> Result<Memory> {
        self.store.get(id)?.ok_or_else(|| Error::not_found("memory", id))
    }

    /// Ids of rows, in order; `None` where a memory was forgotten.
    pub(super) fn ids(&self, rows: &[Row]) -> Result<Vec<Option<String>>> {
        let found: HashMap<Row, String> = self.store.memories(rows)?.into_iter().map(|(row, m)| (row, m.id)).collect();
        Ok(rows.iter().map(|row| found.get(row).cloned()).collect())
    }

    /// The memories of a scope, oldest first, at most `limit`.
    ///
    /// # Errors
    /// Storage errors.
    pub fn list(&self, scope: &Scope, limit: usize) -> Result<Vec<Memory>> {
        Ok(self.store.list(scope, None, limit)?.into_iter().map(|(_, memory)| memory).collect())
    }

    /// How many memories the scope holds.
    ///
    /// # Errors
    /// Storage errors.
    pub fn count(&self, scope: &Scope) -> Result<usize> {
        if scope.is_everything() { Ok(self.store.count()? as usize) } else { Ok(self.list(scope, usize::MAX)?.len()) }
    }

    /// The namespace in numbers.
    ///
    /// # Errors
    /// Storage errors.
    pub fn overview(&self) -> Result<Overview> {
        let counts = self.store.counts()?;
        let usage = self.store.disk_usage()?;
        Ok(Overview {
            namespace: self.name.clone(),
            memories: counts.memories,
            recalls: counts.recalls,
            closed: counts.closed,
            encoder: self.store.encoder()?.map(|stamp| stamp.model),
            disk_bytes: usage.database_bytes + usage.segments_bytes,
        })
    }

    /// What is wrong with the stored data, a sentence each; empty if it is whole.
    ///
    /// # Errors
    /// Storage errors.
    pub fn check(&self) -> Result<Vec<String>> {
        self.store.check()
    }

    /// Rebuilds everything that follows from the stored texts and vectors.
    ///
    /// # Errors
    /// Storage errors.
    pub fn repair(&self) -> Result<()> {
        self.store.rebuild_derived()
    }
}
