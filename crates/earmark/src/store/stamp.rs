//! Which encoder's vectors a namespace holds.

use std::sync::PoisonError;

use rusqlite::Connection;

use super::database::{Attempt, add_meta, meta_number, meta_text, set_meta};
use super::{EncoderStamp, Store};
use crate::error::{Error, Result};

const MODEL: &str = "encoder_model";
const DIMENSION: &str = "encoder_dimension";

impl Store {
    /// The encoder of this namespace; `None` before the first one.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn encoder(&self) -> Result<Option<EncoderStamp>> {
        self.database.read(|snapshot| read(snapshot))
    }

    /// Says which encoder the caller uses; the first one becomes the namespace's. From then on this store
    /// refuses to write if the namespace goes over to another one.
    ///
    /// # Errors
    /// [`Error::EncoderMismatch`] if the namespace has another one; [`Error::InvalidInput`] for 0 dimensions.
    pub fn stamp_encoder(&self, stamp: &EncoderStamp) -> Result<()> {
        if stamp.dimension == 0 {
            return Err(Error::invalid("encoder", "must have at least one dimension"));
        }
        let current = self.encoder()?;
        if current.is_none() {
            self.database.write(|transaction| match read(transaction)? {
                Some(_) => Ok(()),
                None => {
                    write(transaction, stamp)?;
                    // Whoever read the vectors in before knows no dimension.
                    add_meta(transaction, "generation", 1).map(drop)
                }
            })?;
        }
        let current = self.encoder()?;
        if current.as_ref() != Some(stamp) {
            return Err(self.mismatch(current.as_ref(), stamp));
        }
        *self.expected.write().unwrap_or_else(PoisonError::into_inner) = Some(stamp.clone());
        Ok(())
    }

    /// The dimension to write, inside the writing transaction.
    pub(crate) fn check_encoder(&self, connection: &Connection) -> Attempt<usize> {
        let Some(current) = read(connection)? else {
            let reason = "the namespace has no encoder yet; name one before the first memory".to_owned();
            return Err(Error::Conflict { reason }.into());
        };
        match &*self.expected.read().unwrap_or_else(PoisonError::into_inner) {
            Some(expected) if *expected != current => Err(self.mismatch(Some(&current), expected).into()),
            _ => Ok(current.dimension),
        }
    }

    fn mismatch(&self, current: Option<&EncoderStamp>, received: &EncoderStamp) -> Error {
        let name = |stamp: &EncoderStamp| format!("{} ({} dimensions)", stamp.model, stamp.dimension);
        Error::EncoderMismatch {
            namespace: self.namespace.clone(),
            expected: current.map(name).unwrap_or_default(),
            received: name(received),
        }
    }
}

/// The stamp as it is kept.
pub(crate) fn read(connection: &Connection) -> Attempt<Option<EncoderStamp>> {
    let dimension = meta_number(connection, DIMENSION)? as usize;
    Ok(meta_text(connection, MODEL)?.map(|model| EncoderStamp { model, dimension }))
}

/// Keeps the stamp.
pub(crate) fn write(connection: &Connection, stamp: &EncoderStamp) -> Attempt<()> {
    set_meta(connection, MODEL, &stamp.model)?;
    set_meta(connection, DIMENSION, stamp.dimension as i64)
}
