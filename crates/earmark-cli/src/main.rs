//! The `earmark` command: arguments to library calls, answers to text or JSON. No logic of its own.

mod args;
mod commands;
mod open;
mod render;
mod settings;

use std::process::ExitCode;

use anstream::eprintln;
use anstyle::{AnsiColor, Style};
use clap::Parser;
use earmark::{Error, ErrorKind};

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    match commands::run(cli) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let style = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
            eprintln!("{style}error:{style:#} {}", render::printable(&error.to_string()));
            ExitCode::from(exit_code(&error))
        }
    }
}

/// The one mapping from the library's errors to exit codes.
fn exit_code(error: &Error) -> u8 {
    match error.kind() {
        ErrorKind::Invalid => 2,
        ErrorKind::NotFound => 3,
        ErrorKind::Conflict => 4,
        ErrorKind::Upstream => 5,
        _ => 6,
    }
}

/// The reader of our output went away (`earmark export | head`).
fn is_broken_pipe(error: &Error) -> bool {
    matches!(error, Error::Io { path, reason } if path.as_os_str() == "output" && reason.contains("Broken pipe"))
}
