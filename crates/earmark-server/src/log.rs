//! The log, on standard error: standard output may be a protocol.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::LevelFilter;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging from `level` up; a second start changes nothing.
pub fn start(format: Format, level: LevelFilter) {
    let log = tracing_subscriber::fmt().with_writer(io::stderr).with_max_level(level).with_target(false);
    let _ = match format {
        Format::Text => log.with_ansi(io::stderr().is_terminal()).compact().try_init(),
        Format::Json => log.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init(),
    };
}

/// The level of `verbose` (every request) or not (what went wrong, and start and end).
pub fn level(verbose: bool) -> LevelFilter {
    if verbose { LevelFilter::INFO } else { LevelFilter::WARN }
}
