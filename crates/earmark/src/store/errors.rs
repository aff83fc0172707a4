//! Errors of SQLite and of the operating system in plain words.

use std::io;
use std::path::Path;

use rusqlite::ErrorCode;

use crate::error::Error;

/// What an operating-system error on `path` means.
pub(crate) fn io_error(path: &Path, error: &io::Error) -> Error {
    let reason = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => DISK_FULL.to_owned(),
        io::ErrorKind::PermissionDenied => "no permission; give this user the right to write here".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => READ_ONLY.to_owned(),
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => "is a file, a folder is needed".to_owned(),
        _ => error.to_string(),
    };
    Error::Io { path: path.to_owned(), reason }
}

const DISK_FULL: &str = "the disk is full: nothing was stored; free some space and try again";
const READ_ONLY: &str = "is read-only; make it writable, or choose another data folder";

/// What an SQLite error on the database `path` means.
pub(crate) fn sql_error(path: &Path, error: &rusqlite::Error) -> Error {
    let io = |reason: &str| Error::Io { path: path.to_owned(), reason: reason.to_owned() };
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt) => corrupt(path, error.to_string()),
        Some(ErrorCode::NotADatabase) => corrupt(path, "it is not an Earmark database".to_owned()),
        Some(ErrorCode::DiskFull) => io(DISK_FULL),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => io(READ_ONLY),
        Some(ErrorCode::CannotOpen) => io("cannot be opened; check that its folder exists and is writable"),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            io("other processes have been writing for two minutes without a pause: nothing was stored; try again")
        }
        Some(ErrorCode::TooBig) => Error::invalid("content", "is larger than the store can keep (1 GB)"),
        Some(ErrorCode::SystemIoFailure) => {
            io(&format!("reading or writing failed ({error}): nothing was stored; check the disk and its free space"))
        }
        _ if is_decoding(error) => corrupt(path, error.to_string()),
        _ => io(&error.to_string()),
    }
}

fn is_decoding(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    matches!(error, FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..))
}

/// Shorthand for [`Error::Corrupt`].
pub(crate) fn corrupt(path: &Path, reason: impl Into<String>) -> Error {
    Error::Corrupt { path: path.to_owned(), reason: reason.into() }
}

/// Whether trying again may help.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
