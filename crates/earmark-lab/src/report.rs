//! What every result folder says besides its numbers: command, commit, machine.

use std::process::Command;
use std::time::Instant;

/// Where and from what a run was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// The command, without the folders of this machine.
    pub command: String,
    /// The commit, with `+ uncommitted changes` where there are some; `unknown` outside a repository.
    pub commit: String,
    /// Processor and number of cores.
    pub machine: String,
    /// The day of the run (UTC), `YYYY-MM-DD`.
    pub date: String,
    /// When the command began.
    pub started: Instant,
}

impl Provenance {
    /// Of this process, which begins now.
    pub fn here(command: String) -> Self {
        let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
        Provenance { command, commit: commit(), machine: machine(), date, started: Instant::now() }
    }

    /// As lines of Markdown, with the time since the beginning.
    pub fn markdown(&self) -> String {
        let Provenance { command, commit, machine, date, started } = self;
        let took = started.elapsed().as_secs();
        format!("- command: `{command}`\n- commit: {commit}\n- machine: {machine}\n- date: {date}\n- took: {took} s\n")
    }
}

fn commit() -> String {
    let Some(head) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".into() };
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", "crates", "Cargo.toml", "Cargo.lock"]);
    if changed.is_some_and(|files| !files.is_empty()) { format!("{head} + uncommitted changes") } else { head }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {cores} cores, {} {}", processor(), std::env::consts::OS, std::env::consts::ARCH)
}

fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| "unknown processor".into(), |(_, name)| name.trim().to_owned())
}
