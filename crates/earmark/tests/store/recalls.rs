//! Recalls, labels, experiences, learned state.

use std::time::Duration;

use earmark::store::{CandidateLog, Label, Learned, RecallState, Row, SlateEntry, Store, What};
use earmark::{Error, ErrorKind, Scope};
use serde_json::json;

use super::{Fresh, assert_whole, encode, log, open, remember_text};

fn label(row: i64, useful: bool, source: &str) -> Label {
    Label { row: Row(row), useful, source: source.to_owned() }
}

fn with_memories(count: usize) -> Fresh {
    let fresh = Fresh::new();
    (0..count).for_each(|i| drop(remember_text(&fresh.store, &format!("text {i}"))));
    fresh
}

#[test]
fn a_recall_comes_back_as_it_was_logged() {
    let fresh = with_memories(5);
    let logged = log("rc_1", &[Row(1), Row(2), Row(3)]);
    fresh.store.log_recall(&logged).unwrap();
    assert_eq!(fresh.store.add_round("rc_1", &[SlateEntry { row: Row(3), explored: true }]).unwrap(), 1);
    fresh.store.add_labels("rc_1", 0, &[label(1, true, "citation"), label(2, true, "citation")]).unwrap();
    fresh.store.add_labels("rc_1", 0, &[label(2, false, "user")]).unwrap();
    assert_eq!(fresh.store.close_recall("rc_1", &[(1, label(3, false, "user"))]).unwrap(), 1);

    let again = open(fresh.folder.path());
    let stored = again.recall("rc_1").unwrap().unwrap();
    assert_eq!(stored.log, logged);
    assert_eq!((stored.state, stored.sequence), (RecallState::Closed, Some(1)));
    assert_eq!(stored.rounds[0].slate, logged.slate);
    assert_eq!(stored.rounds[0].labels, [label(1, true, "citation"), label(2, false, "user")]);
    assert_eq!(stored.rounds[1].labels, [label(3, false, "user")]);
    assert_eq!(again.experiences(1, 10).unwrap(), [stored]);
    assert_eq!(again.experience_queries().unwrap(), [(1, logged.query_vector)]);
    let counts = again.counts().unwrap();
    assert_eq!((counts.memories, counts.recalls, counts.closed), (5, 1, 1));
    assert_eq!((counts.positive_by_source["citation"], counts.negative_by_source["user"]), (1, 2));
    assert_whole(&again);
}

#[test]
fn what_is_gone_by_now_is_left_out_of_a_recall() {
    let fresh = with_memories(5);
    let logged = |id: &str, rows: &[Row]| {
        fresh.store.log_recall(&log(id, rows)).unwrap();
        let stored = fresh.store.recall(id).unwrap().unwrap();
        let candidates: Vec<i64> = stored.log.candidates.iter().map(|candidate| candidate.row.0).collect();
        (candidates, stored.rounds[0].slate.len())
    };
    fresh.store.search(&encode("text 1"), 1, &Scope::default()).unwrap();
    assert_eq!(logged("rc_1", &[Row(1), Row(2), Row(99)]), (vec![1, 2], 2));
    // The vectors that this store has in memory still show what another one forgets, and not what it adds.
    let other = open(fresh.folder.path());
    let gone = other.memories(&[Row(2)]).unwrap().remove(0).1.id;
    assert_eq!(other.forget(What::Ids(&[gone])).unwrap(), 1);
    remember_text(&other, "text 5");
    assert_eq!(logged("rc_2", &[Row(1), Row(2), Row(6)]), (vec![1, 6], 1));
    fresh.store.search(&encode("text 1"), 1, &Scope::default()).unwrap();
    assert_eq!(logged("rc_3", &[Row(1), Row(2), Row(6)]), (vec![1, 6], 1));
    assert_whole(&fresh.store);
}

#[test]
fn feedback_that_cannot_be_is_refused() {
    let fresh = with_memories(3);
    fresh.store.log_recall(&log("rc_1", &[Row(1), Row(2)])).unwrap();
    let kind = |result: earmark::Result<i64>| result.unwrap_err().kind();
    assert_eq!(kind(fresh.store.close_recall("rc_x", &[])), ErrorKind::NotFound);
    assert_eq!(kind(fresh.store.close_recall("rc_1", &[(0, label(3, true, "user"))])), ErrorKind::Invalid);
    assert_eq!(kind(fresh.store.close_recall("rc_1", &[(7, label(1, true, "user"))])), ErrorKind::Invalid);
    assert_eq!(fresh.store.recall("rc_1").unwrap().unwrap().state, RecallState::Open);
    assert_eq!(fresh.store.close_recall("rc_1", &[(0, label(1, true, "user"))]).unwrap(), 1);
    assert_eq!(kind(fresh.store.close_recall("rc_1", &[(0, label(1, true, "user"))])), ErrorKind::Conflict);
    assert!(matches!(fresh.store.log_recall(&log("rc_1", &[Row(1)])), Err(Error::Conflict { .. })));
    let mut uneven = log("rc_2", &[Row(1)]);
    uneven.candidates.push(CandidateLog { row: Row(2), features: vec![] });
    assert!(matches!(fresh.store.log_recall(&uneven), Err(Error::InvalidInput { .. })));
}

#[test]
fn thousands_of_recalls_without_feedback() {
    let fresh = with_memories(50);
    let rows: Vec<Row> = (1..=50).map(Row).collect();
    let mut size = 0;
    for i in 0..3_000 {
        fresh.store.log_recall(&log(&format!("rc_{i}"), &rows)).unwrap();
        if i % 100 == 0 {
            fresh.store.expire(500, Duration::from_secs(3_600)).unwrap();
        }
        if i == 1_000 {
            size = fresh.store.disk_usage().unwrap().database_bytes;
        }
    }
    fresh.store.expire(500, Duration::from_secs(3_600)).unwrap();
    let counts = fresh.store.counts().unwrap();
    assert_eq!((counts.open, counts.expired, counts.recalls), (500, 2_500, 3_000));
    let grown = fresh.store.disk_usage().unwrap().database_bytes.saturating_sub(size);
    assert!(grown < 2_000 * 2_000, "2,000 recalls took {grown} bytes");
    match fresh.store.close_recall("rc_0", &[(0, label(1, true, "user"))]) {
        Err(Error::NotFound { hint, .. }) => assert!(hint.contains("expired"), "{hint}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(fresh.store.recalls(Some(RecallState::Open), 1).unwrap()[0].log.id, "rc_2999");
    assert_eq!(fresh.store.expire(500, Duration::ZERO).unwrap(), 500);
    assert_whole(&fresh.store);
}

#[test]
fn learned_states_are_versions() {
    let fresh = Fresh::new();
    let state = |i: u8| Learned { parent: 0, through_sequence: 3, blob: vec![i; 1_000], summary: json!({"loss": i}) };
    assert_eq!(fresh.store.learned(None).unwrap(), None);
    for i in 1..=40 {
        assert_eq!(fresh.store.save_learned(&state(i)).unwrap(), i64::from(i));
    }
    let versions: Vec<i64> = fresh.store.learned_versions().unwrap().iter().map(|stored| stored.version).collect();
    assert_eq!(versions, (9..=40).rev().collect::<Vec<i64>>());
    assert_eq!(fresh.store.learned(None).unwrap().unwrap().learned, state(40));
    assert_eq!(fresh.store.learned(Some(9)).unwrap().unwrap().learned, state(9));
    assert_eq!(fresh.store.learned(Some(8)).unwrap(), None);
    assert_eq!(fresh.store.setting(Store::ACTIVE_LEARNED).unwrap().as_deref(), Some("40"));
    assert_eq!(fresh.store.setting("epoch").unwrap(), None);
}
