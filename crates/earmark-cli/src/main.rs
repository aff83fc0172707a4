//! The `earmark` command: arguments to library calls, answers to text or JSON. No logic of its own.

mod args;
mod commands;
mod heaps;
mod open;
mod render;
mod settings;

use std::process::ExitCode;

use anstream::eprintln;
use anstyle::{AnsiColor, Style};
use clap::Parser;
use earmark::{Error, ErrorKind};
use serde_json::json;

fn main() -> ExitCode {
    heaps::share();
    let cli = args::Cli::parse();
    let json = cli.global.json;
    match commands::run(cli) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error, json);
            ExitCode::from(exit_code(&error))
        }
    }
}

/// Says on standard error what went wrong.
fn report(error: &Error, json: bool) {
    let message = render::printable_lines(&error.to_string());
    if json {
        eprintln!("{}", json!({ "error": { "exit_code": exit_code(error), "message": message } }));
    } else {
        let style = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
        eprintln!("{style}error:{style:#} {message}");
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
