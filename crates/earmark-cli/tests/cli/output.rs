//! What reaches the terminal.

use serde_json::json;

use crate::support::{Home, text};

const HOSTILE: &str = "safe\u{1b}[2J\u{1b}[1;31m\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}end";
const AUTHOR: &str = "\u{1b}]8;;https://example.org\u{1b}\\click\u{1b}]8;;\u{1b}\\";

/// B23: control sequences in stored text are shown, not obeyed, and come back exactly in JSON.
#[test]
fn stored_text_cannot_steer_the_terminal() {
    let home = Home::new();
    home.remember_lines(&[json!({"content": HOSTILE, "author": AUTHOR, "tags": ["\u{1b}[31mred"]})]);
    let recall = home.json(&["recall", "safe end"]);
    assert_eq!(text(&recall["results"][0], "content"), HOSTILE);
    assert_eq!(text(&recall["results"][0], "author"), AUTHOR);
    let id = text(&recall, "recall_id");
    let hostile_query = format!("safe {HOSTILE}");
    let recalled = home.ok(&["recall", &hostile_query]);
    let error = home.fails(3, &["explain", HOSTILE]);
    for shown in [
        recalled,
        home.ok(&["recall", "safe", "--context"]),
        home.ok(&["explain", id]),
        home.ok(&["namespaces"]),
        error,
    ] {
        assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}']), "{shown:?}");
    }
    assert!(home.ok(&["recall", "safe"]).contains("\\u{1b}[2J"));
}

#[test]
fn colours_are_for_terminals() {
    let home = Home::new();
    home.ok(&["remember", "red apple"]);
    assert!(!home.ok(&["recall", "apple"]).contains('\u{1b}'));
    let forced = home.command(&["recall", "apple"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(String::from_utf8(forced.stdout).unwrap().contains('\u{1b}'));
    let refused = home.command(&["recall", "apple"]).env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1").output().unwrap();
    assert!(refused.status.success());
}

fn lines_at(home: &Home, columns: usize, args: &[&str]) -> Vec<String> {
    let output = home.command(args).env("COLUMNS", columns.to_string()).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn tables_fit_the_terminal() {
    let home = Home::new();
    let text = "The spare key of the allotment shed hangs behind the boiler, on the hook under the stairs.";
    home.ok(&["remember", text, "--author", "Ana", "--at", "2027-02-14"]);
    home.ok(&["remember", "Helga is the name of the sourdough.", "--author", "Bartholomew"]);
    for columns in [40, 80, 120] {
        let lines = lines_at(&home, columns, &["recall", "where is the spare key?"]);
        let table: Vec<&String> = lines.iter().take_while(|line| !line.is_empty()).collect();
        assert!(table.iter().all(|line| line.chars().count() <= columns), "{columns}: {table:#?}");
        let joined = table.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        assert!(joined.contains("[1]") && joined.contains("boiler") && joined.contains("2027-02-14"), "{joined}");
    }
    let wide = lines_at(&home, 120, &["recall", "where is the spare key?"]);
    let starts: Vec<usize> =
        wide[..2].iter().map(|line| line.rfind("memory").or(line.find("The spare")).unwrap()).collect();
    assert_eq!(starts[0], starts[1], "{wide:#?}");
}

#[test]
fn every_verb_prints_json() {
    let home = Home::new();
    let id = home.remember(&["red apple"]);
    let recall = home.json(&["recall", "apple"]);
    for key in ["recall_id", "namespace", "learning_version", "results", "context", "abstained", "took_ms"] {
        assert!(recall.get(key).is_some(), "{key}");
    }
    let recall_id = text(&recall, "recall_id");
    home.json(&["refine", recall_id, "--not-useful", "1"]);
    home.json(&["feedback", recall_id, "--not-useful", "1"]);
    for args in
        [&["explain", recall_id][..], &["learning", "status"], &["learning", "freeze"], &["learning", "unfreeze"]]
    {
        home.json(args);
    }
    for args in
        [&["namespaces"][..], &["doctor"], &["reembed"], &["export", "out.jsonl"], &["import", "jsonl", "out.jsonl"]]
    {
        home.json(args);
    }
    home.json(&["forget", &id]);
    home.json(&["namespaces", "--remove", "default", "--yes"]);
    let run = home.run(&["explain", "rc_nope", "--json"]).expect(3, &["explain"]);
    let error: serde_json::Value = serde_json::from_str(&run.err).unwrap();
    assert_eq!(error["error"]["exit_code"], 3);
    assert!(text(&error["error"], "message").contains("rc_nope"));
}

#[test]
fn help_and_completions() {
    let home = Home::new();
    let help = home.ok(&["--help"]);
    for verb in [
        "remember", "recall", "feedback", "refine", "forget", "explain", "learning", "import", "export", "reembed",
        "doctor", "demo",
    ] {
        assert!(help.contains(verb), "{verb}");
        home.ok(&[verb, "--help"]);
    }
    assert!(help.contains("Exit codes") && help.contains("Examples"));
    for shell in ["bash", "zsh", "fish"] {
        assert!(home.ok(&["completions", shell]).contains("earmark"));
    }
    assert_eq!(home.run(&["add", "red apple"]).code, 0);
    assert_eq!(home.run(&["search", "apple"]).code, 0);
}

#[test]
fn an_empty_memory_says_so() {
    let home = Home::new();
    let run = home.run(&["recall", "anything"]).expect(0, &["recall"]);
    assert!(run.out.contains("holds no memory yet"), "{}", run.out);
    assert!(run.err.contains("new data folder"), "{}", run.err);
    assert_eq!(home.json(&["recall", "anything"])["abstained"], true);
    home.ok(&["remember", "red apple"]);
    assert!(home.ok(&["recall", "apple", "--user", "nobody"]).contains("nothing found"));
}

/// `earmark export | head -1`.
#[test]
fn a_reader_that_leaves_is_no_error() {
    let home = Home::new();
    let texts: Vec<String> = (0..200).map(|i| format!("{i} {}", "filler ".repeat(200))).collect();
    home.ok(&[&["remember"], &texts.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat());
    let mut child = home
        .command(&["export"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
