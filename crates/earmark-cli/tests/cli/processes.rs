//! Several processes on one data folder.

use std::{collections::BTreeMap, collections::BTreeSet, process::Stdio};

use crate::support::Home;

/// B06: the same words at the same moment, from processes of their own.
#[test]
fn the_same_words_at_once_are_one_memory() {
    let home = Home::new();
    let groups = [("ana", "s1", 8), ("ben", "s1", 8), ("ana", "s2", 4)];
    let mut children = Vec::new();
    for (author, session, count) in groups {
        for _ in 0..count {
            let args = ["remember", "Yes, Friday works.", "--author", author, "--session", session, "--json"];
            let child = home.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            children.push(((author, session), child));
        }
    }
    let mut ids: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    for (group, child) in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        ids.entry(group).or_default().insert(answer[0]["id"].as_str().unwrap().to_owned());
    }
    assert!(ids.values().all(|group| group.len() == 1), "{ids:?}");
    assert_eq!(home.exported().len(), 3);
}

/// Writers, readers and learners beside each other: nothing is lost, nothing is locked.
#[test]
fn two_processes_lose_nothing() {
    let home = Home::new();
    home.ok(&["remember", "the harbour ferry leaves at noon"]);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let home = &home;
            scope.spawn(move || {
                for i in 0..12 {
                    home.ok(&["remember", &format!("writer {writer} wrote ferry note {i}")]);
                    let recall = home.json(&["recall", "ferry note"]);
                    home.ok(&["feedback", recall["recall_id"].as_str().unwrap(), "--useful", "1"]);
                }
            });
        }
    });
    assert_eq!(home.exported().len(), 25);
    let status = home.json(&["learning", "status"]);
    assert_eq!((status["experiences"].as_u64(), status["labels"]["explicit"]["useful"].as_u64()), (Some(24), Some(24)));
    assert!(status["version"].as_i64().unwrap() > 0);
    assert!(home.ok(&["doctor"]).contains("whole"));
}

/// A process that was killed in the middle leaves a memory that opens.
#[cfg(unix)]
#[test]
fn a_killed_writer_leaves_a_whole_memory() {
    let home = Home::new();
    home.ok(&["remember", "the harbour ferry leaves at noon"]);
    for i in 0..6u64 {
        let texts: Vec<String> = (0..50).map(|n| format!("round {i} line {n}")).collect();
        let args = [&["remember"], &texts.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat();
        let mut child = home.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(15 * i));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!((home.exported().len() - 1) % 50, 0, "a call stores all or nothing");
    assert!(home.ok(&["doctor"]).contains("whole"));
    home.still_works();
}
