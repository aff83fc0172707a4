//! One function a verb: read the arguments, call the library, print the answer.

mod curve;
mod demo;
mod doctor;
mod explain;
mod feedback;
mod forget;
mod import;
mod keys;
mod learning;
mod namespaces;
mod recall;
mod remember;
mod serve;

use std::{
    io::{IsTerminal, Read, Write},
    path::Path,
    process::ExitCode,
};

use clap::CommandFactory;
use earmark::{Error, Filter, Result, Scope, parse_instant};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    args::{Cli, Command, Within},
    open::existing,
    settings::{self, Settings},
};

/// Runs what was typed.
pub(crate) fn run(cli: Cli) -> Result<ExitCode> {
    if let Command::Completions { shell } = cli.command {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "earmark", &mut script);
        std::io::stdout().write_all(&script).map_err(|e| io_error(Path::new("output"), &e))?;
        return Ok(ExitCode::SUCCESS);
    }
    let settings = settings::resolve(&cli.global)?;
    match cli.command {
        Command::Remember(args) => return remember::run(&settings, &args),
        Command::Recall(args) => recall::run(&settings, args),
        Command::Feedback(args) => feedback::run(&settings, args),
        Command::Refine(args) => recall::refine(&settings, args),
        Command::Forget(args) => forget::run(&settings, args),
        Command::Explain { recall_id, all } => explain::run(&settings, &recall_id, all),
        Command::Learning(verb) => learning::run(&settings, verb),
        Command::Import(args) => return import::run(&settings, &args),
        Command::Export { file } => import::export(&settings, file.as_deref()),
        Command::Reembed => namespaces::reembed(&settings),
        Command::Namespaces { remove: Some(name), yes } => namespaces::remove(&settings, &name, yes),
        Command::Namespaces { remove: None, .. } => namespaces::list(&settings),
        Command::Doctor { repair } => return doctor::run(&settings, repair),
        Command::Serve(args) => serve::run(&settings, &args),
        Command::Proxy(args) => serve::proxy(&settings, &args),
        Command::Mcp(args) => serve::mcp(&settings, &args),
        Command::Keys(verb) => keys::run(&settings, verb),
        Command::Demo { questions, keep } => demo::run(&settings, questions, keep),
        Command::Completions { .. } => Ok(()),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Prints `value` as JSON on one line.
fn print_json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(value).map_err(|e| Error::invalid("output", e.to_string()))?;
    print_text(&text)
}

/// Prints text and a line end; colours reach terminals only.
fn print_text(text: &str) -> Result<()> {
    writeln!(anstream::stdout().lock(), "{text}").map_err(|e| io_error(Path::new("output"), &e))
}

fn io_error(path: &Path, error: &std::io::Error) -> Error {
    Error::Io { path: path.to_owned(), reason: error.to_string() }
}

/// The bytes of a file, or of standard input for `-`.
fn read_input(path: &Path) -> Result<Vec<u8>> {
    if path.as_os_str() != "-" {
        return std::fs::read(path).map_err(|e| io_error(path, &e));
    }
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).map_err(|e| io_error(path, &e))?;
    Ok(bytes)
}

/// Standard input as text, without the line end that shells put behind it.
fn read_text(field: &str) -> Result<String> {
    let bytes = read_input(Path::new("-"))?;
    let mut text = String::from_utf8(bytes).map_err(|e| {
        let place = e.utf8_error().valid_up_to();
        Error::invalid(field, format!("on standard input is not UTF-8 text (first bad byte at offset {place})"))
    })?;
    if text.ends_with('\n') {
        text.truncate(text.len() - if text.ends_with("\r\n") { 2 } else { 1 });
    }
    Ok(text)
}

/// Asks on a terminal; without one, `--yes` is needed.
fn confirmed(question: &str) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(Error::invalid("--yes", format!("is needed without a terminal to ask on: {question}")));
    }
    let _ = write!(std::io::stderr(), "{question} [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(|e| io_error(Path::new("-"), &e))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn scope(within: &Within) -> Result<Scope> {
    let instant =
        |field: &str, text: &Option<String>| text.as_ref().map(|t| parse_instant(field, &t.clone().into())).transpose();
    Ok(Scope {
        user_id: within.owner.user_id.clone(),
        agent_id: within.owner.agent_id.clone(),
        session_id: within.owner.session_id.clone(),
        after: instant("after", &within.after)?,
        before: instant("before", &within.before)?,
        filter: filter(within)?,
    })
}

/// `--filter` and each `--tag` together.
fn filter(within: &Within) -> Result<Option<Filter>> {
    let tagged = within.tags.iter().map(|tag| Ok(json!({ "tags": { "contains": tag } })));
    let mut parts: Vec<Value> =
        within.filter.as_deref().map(read_filter).into_iter().chain(tagged).collect::<Result<_>>()?;
    match parts.len() {
        0 => Ok(None),
        1 => Filter::parse(&parts.remove(0)).map(Some),
        _ => Filter::parse(&json!({ "AND": parts })).map(Some),
    }
}

fn read_filter(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|e| Error::invalid("filter", format!("is not JSON: {e}")))
}

/// A bar on standard error; hidden when quiet, when printing JSON, or without a terminal.
fn progress(settings: &Settings, what: &'static str) -> ProgressBar {
    if settings.quiet || settings.json {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg:12} [{bar:30}] {pos}/{len} {per_sec} {eta} left");
    let bar = ProgressBar::new(0).with_message(what);
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Tells a bar how far the work is.
fn advance(bar: &ProgressBar) -> impl FnMut(usize, usize) + '_ {
    |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    }
}
