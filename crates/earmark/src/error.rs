//! One error for the whole library; each variant says whose mistake it is and what to do.

use std::path::PathBuf;

/// What every fallible call of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong, in words for the person who reads it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument the caller gave cannot be used.
    #[error("`{field}` {reason}")]
    InvalidInput {
        /// Name of the argument, as the caller spells it (`content`, `items[3].content`, `top_k`).
        field: String,
        /// What is wrong with it and what is accepted.
        reason: String,
    },
    /// A filter names an unknown operator, or compares what cannot be compared.
    #[error("filter {path}: {reason}")]
    InvalidFilter {
        /// Where in the filter, for example `AND[1].priority`.
        path: String,
        /// What is wrong and what is accepted.
        reason: String,
    },
    /// No such memory, recall, namespace or version.
    #[error("no {what} `{id}`{hint}")]
    NotFound {
        /// `memory`, `recall`, `namespace`, `learning version`.
        what: &'static str,
        /// What was asked for.
        id: String,
        /// Empty, or a sentence that starts with a separator, for example ` (it expired on ...)`.
        hint: String,
    },
    /// The call contradicts what is already stored.
    #[error("{reason}")]
    Conflict {
        /// What stands against it and what to do.
        reason: String,
    },
    /// The namespace was written with another encoder.
    #[error(
        "namespace `{namespace}` holds vectors of `{expected}`, but the encoder in use is `{received}`; \
         use the old encoder, or run `earmark reembed` to move the namespace to the new one"
    )]
    EncoderMismatch {
        /// The namespace.
        namespace: String,
        /// Model (and dimension) stamped on the namespace.
        expected: String,
        /// Model (and dimension) in use.
        received: String,
    },
    /// A local model cannot be loaded.
    #[error("encoder `{model}` cannot be used: {reason}")]
    Encoder {
        /// Model name or folder.
        model: String,
        /// What is missing or broken, and what to do.
        reason: String,
    },
    /// A configured endpoint failed or answered nonsense.
    #[error("{url}: {reason}")]
    Remote {
        /// The full URL that was called.
        url: String,
        /// Status or parse error, and what was expected.
        reason: String,
    },
    /// Stored data is damaged.
    #[error("{path} is damaged: {reason}; run `earmark doctor`")]
    Corrupt {
        /// File.
        path: PathBuf,
        /// What does not hold.
        reason: String,
    },
    /// The store was written by a newer version of the program.
    #[error("{path} has schema version {received}, this program knows up to {expected}; upgrade earmark")]
    SchemaTooNew {
        /// File.
        path: PathBuf,
        /// Newest known version.
        expected: i64,
        /// Version found.
        received: i64,
    },
    /// The disk is full, the folder is read-only, or another operating-system error.
    #[error("{path}: {reason}")]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What the system said and what to do.
        reason: String,
    },
}

/// Whose mistake an [`Error`] is; HTTP status, exit code and Python exception follow from this alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller's argument (HTTP 400, exit code 2).
    Invalid,
    /// Something named does not exist (HTTP 404, exit code 3).
    NotFound,
    /// Contradicts stored state (HTTP 409, exit code 4).
    Conflict,
    /// A model or an endpoint (HTTP 502, exit code 5).
    Upstream,
    /// Disk, permissions, damage (HTTP 500, exit code 6).
    Storage,
}

impl Error {
    /// Whose mistake this is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::InvalidInput { .. } | Error::InvalidFilter { .. } => ErrorKind::Invalid,
            Error::NotFound { .. } => ErrorKind::NotFound,
            Error::Conflict { .. } | Error::EncoderMismatch { .. } => ErrorKind::Conflict,
            Error::Encoder { .. } | Error::Remote { .. } => ErrorKind::Upstream,
            Error::Corrupt { .. } | Error::SchemaTooNew { .. } | Error::Io { .. } => ErrorKind::Storage,
        }
    }

    /// Shorthand for [`Error::InvalidInput`].
    pub fn invalid(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Error::InvalidInput { field: field.into(), reason: reason.into() }
    }

    /// Shorthand for [`Error::NotFound`] without a hint.
    pub fn not_found(what: &'static str, id: impl Into<String>) -> Self {
        Error::NotFound { what, id: id.into(), hint: String::new() }
    }
}
