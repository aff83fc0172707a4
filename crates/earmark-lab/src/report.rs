//! What every result folder says besides its numbers: command, commit, machine.

use std::process::Command;
use std::time::Instant;

const COMMAND: &str = "- command: ";
const EARLIER: &str = "- earlier command: ";

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

    /// As lines of Markdown, above them the other commands that `readme` names, each once: they filled the same folder.
    pub fn markdown_after(&self, readme: &str) -> String {
        let own = format!("`{}`", self.command);
        let named = readme.lines().filter_map(|line| line.strip_prefix(EARLIER).or(line.strip_prefix(COMMAND)));
        let mut earlier: Vec<&str> = Vec::new();
        for command in named {
            if command != own && !earlier.contains(&command) {
                earlier.push(command);
            }
        }
        let earlier: String = earlier.iter().map(|command| format!("{EARLIER}{command}\n")).collect();
        earlier + &self.markdown()
    }

    /// As lines of Markdown, with the time since the beginning.
    pub fn markdown(&self) -> String {
        let Provenance { command, commit, machine, date, started } = self;
        let took = started.elapsed().as_secs();
        format!("{COMMAND}`{command}`\n- commit: {commit}\n- machine: {machine}\n- date: {date}\n- took: {took} s\n")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_filled_a_folder_is_named_once() {
        let mut readme = String::from("# Title\n\n");
        for command in ["lab a", "lab b", "lab a", "lab c", "lab b"] {
            readme = Provenance::here(command.into()).markdown_after(&readme);
        }
        let commands: Vec<&str> = readme.lines().filter(|line| line.contains("command")).collect();
        assert_eq!(commands, ["- earlier command: `lab a`", "- earlier command: `lab c`", "- command: `lab b`"]);
        assert_eq!(readme.matches("- commit: ").count(), 1, "{readme}");
    }
}
