//! Forgotten means gone from everything, on the disk too.

use std::fs;
use std::path::Path;

use earmark::store::{Label, RecallState, Row, What};
use earmark::{NewMemory, Scope};

use super::{Fresh, all, assert_whole, encode, item, log, open, remember, remember_text};

fn label(row: Row, useful: bool) -> Label {
    Label { row, useful, source: "user".to_owned() }
}

#[test]
fn remember_again_after_forget() {
    let fresh = Fresh::new();
    let text = "The gate code is 4471.";
    let first = remember_text(&fresh.store, text);
    fresh.store.log_recall(&log("rc_1", &[Row(1)])).unwrap();
    assert_eq!(fresh.store.close_recall("rc_1", &[(0, label(Row(1), true))]).unwrap(), 1);
    assert_eq!(fresh.store.forget(What::Ids(std::slice::from_ref(&first))).unwrap(), 1);
    assert_eq!(fresh.store.get(&first).unwrap(), None);
    assert!(fresh.store.experiences(0, 10).unwrap().is_empty());
    assert!(fresh.store.experience_queries().unwrap().is_empty());
    assert_eq!(fresh.store.recall("rc_1").unwrap().unwrap().state, RecallState::Expired);

    let again = fresh.store.insert(vec![item(NewMemory::new(text))]).unwrap().remove(0);
    assert!(again.created && again.id != first);
    for hits in [
        fresh.store.search(&encode(text), 5, &Scope::default()).unwrap(),
        fresh.store.search_words("gate code", 5, &Scope::default()).unwrap().hits,
    ] {
        assert_eq!(hits.iter().map(|hit| hit.row).collect::<Vec<_>>(), [Row(2)]);
    }
    assert_eq!(fresh.store.count().unwrap(), 1);
    assert_eq!(fresh.store.forget(What::Ids(&["m_unknown".to_owned()])).unwrap(), 0);
    assert_whole(&fresh.store);
}

#[test]
fn forgetting_reaches_open_and_closed_recalls() {
    let fresh = Fresh::new();
    let ids: Vec<String> = (0..4).map(|i| remember_text(&fresh.store, &format!("text {i}"))).collect();
    let rows: Vec<Row> = (1..=4).map(Row).collect();
    fresh.store.log_recall(&log("open", &rows)).unwrap();
    fresh.store.log_recall(&log("closed", &rows)).unwrap();
    let labels = [(0, label(Row(1), true)), (0, label(Row(2), false))];
    fresh.store.close_recall("closed", &labels).unwrap();
    fresh.store.forget(What::Ids(&ids[..1])).unwrap();
    for id in ["open", "closed"] {
        let recall = fresh.store.recall(id).unwrap().unwrap();
        assert_eq!(recall.log.candidates.iter().map(|c| c.row).collect::<Vec<_>>(), rows[1..]);
        assert_eq!(recall.rounds[0].slate.iter().map(|entry| entry.row).collect::<Vec<_>>(), [Row(2)]);
    }
    let closed = fresh.store.recall("closed").unwrap().unwrap();
    assert_eq!(closed.rounds[0].labels, [label(Row(2), false)]);
    // A recall that was answered before the memory went is logged without it.
    fresh.store.log_recall(&log("late", &rows)).unwrap();
    assert_eq!(fresh.store.recall("late").unwrap().unwrap().log.candidates.len(), 3);
    assert_whole(&fresh.store);
}

#[test]
fn forgetting_a_scope_leaves_the_others() {
    let fresh = Fresh::new();
    for user in ["ana", "ben"] {
        for i in 0..10 {
            let user_id = Some(user.to_owned());
            remember(&fresh.store, NewMemory { user_id, ..NewMemory::new(format!("text {i}")) });
        }
    }
    let ana = Scope { user_id: Some("ana".to_owned()), ..Scope::default() };
    assert_eq!(fresh.store.forget(What::Scope(&ana)).unwrap(), 10);
    let left = all(&fresh.store);
    assert!(left.len() == 10 && left.iter().all(|(_, memory)| memory.user_id.as_deref() == Some("ben")));
    assert_eq!(fresh.store.search(&encode("text 1"), 50, &Scope::default()).unwrap().len(), 10);
    assert_eq!(fresh.store.search_words("text", 50, &Scope::default()).unwrap().hits.len(), 10);
    assert_whole(&fresh.store);
}

fn files_with(folder: &Path, needle: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, needle));
        } else if fs::read(&path).unwrap().windows(needle.len()).any(|window| window == needle) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn the_bytes_are_gone_from_the_disk() {
    let fresh = Fresh::new();
    let secret = "The vault opens with zyxwvutsrqp.";
    // Enough for a segment file, with the secret within it.
    let texts = (0..5_000).map(|i| if i == 100 { secret.to_owned() } else { format!("harmless {i}") });
    let inserted = fresh.store.insert(texts.map(|text| item(NewMemory::new(text))).collect()).unwrap();
    fresh.store.search(&encode(secret), 1, &Scope::default()).unwrap();
    let mut vector = encode(secret);
    earmark::vector::normalize(&mut vector);
    let vector: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    assert!(!files_with(fresh.folder.path(), b"zyxwvutsrqp").is_empty());
    assert!(files_with(fresh.folder.path(), &vector).iter().any(|path| path.ends_with(".vec")));

    fresh.store.forget(What::Ids(std::slice::from_ref(&inserted[100].id))).unwrap();
    assert_eq!(files_with(fresh.folder.path(), b"zyxwvutsrqp"), Vec::<String>::new());
    assert_eq!(files_with(fresh.folder.path(), &vector), Vec::<String>::new());
    assert_whole(&fresh.store);
    let again = open(fresh.folder.path());
    assert!(again.search(&encode(secret), 5_000, &Scope::default()).unwrap().iter().all(|hit| hit.row != Row(101)));
    assert_whole(&again);
}
