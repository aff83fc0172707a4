//! Several threads and several processes on one store.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;

use earmark::store::{Row, What};
use earmark::{NewMemory, Scope};

use super::{Fresh, assert_whole, encode, item, log, open, remember, remember_text};

/// Folder for the child; the test binary runs itself again with one test, which does the child's work.
pub(crate) const FOLDER: &str = "EARMARK_TEST_FOLDER";

pub(crate) fn start_child(test: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

pub(crate) fn child_folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

fn friday(author: &str, session: &str) -> NewMemory {
    let text = |text: &str| Some(text.to_owned());
    NewMemory { author: text(author), session_id: text(session), ..NewMemory::new("Yes, Friday works.") }
}

#[test]
fn the_same_words_at_the_same_moment() {
    let fresh = Fresh::new();
    let mut child = start_child("processes::child_says_yes", fresh.folder.path());
    let store = Arc::new(open(fresh.folder.path()));
    let groups = [("ana", "s1", 20), ("ben", "s1", 20), ("ana", "s2", 5)];
    for (author, session, count) in groups {
        let writers: Vec<_> = (0..count)
            .map(|_| {
                let store = Arc::clone(&store);
                thread::spawn(move || store.insert(vec![item(friday(author, session))]).unwrap().remove(0))
            })
            .collect();
        let answers: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        let ids: BTreeSet<&str> = answers.iter().map(|answer| answer.id.as_str()).collect();
        assert_eq!(ids.len(), 1);
        assert!(answers.iter().filter(|answer| answer.created).count() <= 1);
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(store.count().unwrap(), 3);
    assert_whole(&store);
}

#[test]
fn child_says_yes() {
    let Some(folder) = child_folder() else { return };
    let store = open(&folder);
    for _ in 0..20 {
        for (author, session) in [("ana", "s1"), ("ben", "s1"), ("ana", "s2")] {
            store.insert(vec![item(friday(author, session))]).unwrap();
        }
    }
}

#[test]
fn two_processes_lose_nothing() {
    const EACH: usize = 150;
    let fresh = Fresh::new();
    let mut children: Vec<Child> = (0..2).map(|_| start_child("processes::child_works", fresh.folder.path())).collect();
    work(&fresh.store, "parent", EACH);
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    // Of each worker: one kept per step, and one more in two steps of three.
    assert_eq!(fresh.store.count().unwrap() as usize, 3 * (EACH + EACH * 2 / 3));
    let counts = fresh.store.counts().unwrap();
    assert_eq!(counts.closed as usize, 3 * EACH);
    let places: Vec<i64> = fresh.store.experiences(0, usize::MAX).unwrap().iter().filter_map(|e| e.sequence).collect();
    assert_eq!(places, (1..=3 * EACH as i64).collect::<Vec<_>>());
    // What the others wrote is found at once.
    let hits = fresh.store.search(&encode("parent 7 kept"), 1, &Scope::default()).unwrap();
    assert!(hits[0].score > 0.999);
    assert_whole(&fresh.store);
}

/// Remembers two, recalls, gives feedback; forgets every other of the second kind.
fn work(store: &earmark::store::Store, name: &str, count: usize) {
    for i in 0..count {
        let kept = remember_text(store, &format!("{name} {i} kept"));
        let row = store.rows(&[&kept]).unwrap()[0].unwrap();
        assert!(store.search(&encode(&format!("{name} {i} kept")), 1, &Scope::default()).unwrap()[0].row == row);
        let id = format!("{name}_{i}");
        store.log_recall(&log(&id, &[row])).unwrap();
        let label = earmark::store::Label { row, useful: true, source: "user".to_owned() };
        store.close_recall(&id, &[(0, label)]).unwrap();
        if !i.is_multiple_of(3) {
            remember(store, NewMemory::new(format!("{name} {i} kept too")));
        } else {
            let gone = remember(store, NewMemory::new(format!("{name} {i} gone")));
            assert_eq!(store.forget(What::Ids(std::slice::from_ref(&gone))).unwrap(), 1);
            let rows: Vec<Row> = store
                .search(&encode(&format!("{name} {i} gone")), 1, &Scope::default())
                .unwrap()
                .iter()
                .map(|hit| hit.row)
                .collect();
            assert_ne!(store.memories(&rows).unwrap()[0].1.id, gone);
        }
    }
}

#[test]
fn child_works() {
    let Some(folder) = child_folder() else { return };
    work(&open(&folder), &format!("child {}", std::process::id()), 150);
}
