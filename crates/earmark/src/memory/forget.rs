//! `forget`: gone means gone everywhere.

use super::Namespace;
use crate::{
    error::{Error, Result},
    record::Scope,
    store::What,
};

/// What to forget.
#[derive(Debug, Clone, PartialEq)]
pub enum Forget {
    /// These ids; unknown ones count as nothing.
    Ids(Vec<String>),
    /// Everything in the scope, which must restrict something.
    Scope(Scope),
}

impl Namespace {
    /// Forgets memories and returns how many there were. One transaction reaches text, vectors, word index,
    /// recalls and experiences; what was learned from them is learned again without them.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a scope that restricts nothing (remove the namespace instead); storage errors.
    pub fn forget(&self, what: &Forget) -> Result<usize> {
        let forgotten = match what {
            Forget::Ids(ids) => self.store.forget(What::Ids(ids))?,
            Forget::Scope(scope) if scope.is_everything() => {
                let reason =
                    "restricts nothing: name ids, a filter, a user, a session or a time, or remove the namespace";
                return Err(Error::invalid("filter", reason));
            }
            Forget::Scope(scope) => self.store.forget(What::Scope(scope))?,
        };
        if forgotten > 0 {
            self.relearn()?;
        }
        Ok(forgotten)
    }
}
