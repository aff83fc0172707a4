//! A home folder of its own for each test, and the binary run in it.

use std::{
    io::Write,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::stub::{Stub, bag};

/// A fresh home with a data folder, and an encoder on loopback.
pub(crate) struct Home {
    folder: TempDir,
    pub(crate) stub: Stub,
    /// Variables of every command.
    pub(crate) variables: Vec<(String, String)>,
}

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Home {
    /// With an encoder that counts words.
    pub(crate) fn new() -> Home {
        Home::with(Stub::of(bag))
    }

    pub(crate) fn with(stub: Stub) -> Home {
        let folder = tempfile::tempdir().unwrap();
        let mut home = Home { variables: Vec::new(), folder, stub };
        home.set("EARMARK_ENCODER__URL", &home.stub.base.clone());
        home.set("EARMARK_ENCODER__MODEL", "stub");
        home
    }

    /// Sets a variable for the runs to come.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where the data of a namespace lies.
    pub(crate) fn namespace_folder(&self, name: &str) -> PathBuf {
        self.path("data").join("namespaces").join(name)
    }

    /// The binary with nothing of the surroundings but PATH.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("earmark"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", self.folder.path());
        command.env("EARMARK_DATA_DIR", self.path("data")).envs(self.variables.iter().cloned());
        command.current_dir(self.folder.path()).args(args).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Run {
        Run::of(self.command(args).output().unwrap())
    }

    /// Runs with `input` on standard input.
    pub(crate) fn pipe(&self, input: &[u8], args: &[&str]) -> Run {
        let mut command = self.command(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        // A program that refuses early closes the pipe; that is its right.
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Run::of(output)
    }

    /// Standard output of a run that has to succeed.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        self.run(args).expect(0, args).out
    }

    /// The JSON that a run has to print.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let args = [args, &["--json"]].concat();
        serde_json::from_str(&self.ok(&args)).unwrap_or_else(|e| panic!("{args:?} printed no JSON: {e}"))
    }

    /// Standard error of a run that has to end with `code`.
    pub(crate) fn fails(&self, code: i32, args: &[&str]) -> String {
        let run = self.run(args).expect(code, args);
        // A fresh home has its data folder named first.
        let error = run.err.find("error: ").unwrap_or_else(|| panic!("{args:?}: {}", run.err));
        run.err[error..].to_owned()
    }

    /// Stores one text and returns its id.
    pub(crate) fn remember(&self, args: &[&str]) -> String {
        self.json(&[&["remember"], args].concat())[0]["id"].as_str().unwrap().to_owned()
    }

    /// Stores JSON lines.
    pub(crate) fn remember_lines(&self, lines: &[Value]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let run = self.pipe(text.as_bytes(), &["remember", "--jsonl", "-"]).expect(0, &["remember --jsonl"]);
        assert!(run.out.contains("refused 0"), "{}", run.out);
    }

    /// Contents of the recalled memories, best first.
    pub(crate) fn recalled(&self, args: &[&str]) -> Vec<String> {
        contents(&self.json(&[&["recall"], args].concat()))
    }

    /// Every stored memory.
    pub(crate) fn exported(&self) -> Vec<Value> {
        self.ok(&["export"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// After whatever happened, the memory goes on working.
    pub(crate) fn still_works(&self) {
        self.ok(&["remember", "The last word is harbour."]);
        assert_eq!(self.recalled(&["last word harbour", "-k", "1"]), ["The last word is harbour."]);
    }
}

impl Run {
    fn of(output: Output) -> Run {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is text");
        Run { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    pub(crate) fn expect(self, code: i32, args: &[&str]) -> Run {
        let shown: String = format!("{}{}", self.out, self.err).chars().take(2000).collect();
        assert_eq!(self.code, code, "{args:?} printed {shown}");
        assert!(!self.err.contains("panicked"), "{args:?}: {}", self.err);
        self
    }
}

pub(crate) fn contents(recall: &Value) -> Vec<String> {
    let results = recall["results"].as_array().unwrap();
    results.iter().map(|result| result["content"].as_str().unwrap().to_owned()).collect()
}

pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no text `{key}` in {value}"))
}
