//! Going over to another encoder.

use earmark::store::{EncoderStamp, Label, Reembedded, Row, Store, ToReembed, What};
use earmark::{Error, NewMemory, Scope};

use super::{Fresh, assert_whole, item, log, open, remember_text};

const NEW: usize = 5;

fn new_stamp() -> EncoderStamp {
    EncoderStamp { model: "new".to_owned(), dimension: NEW }
}

fn new_encode(text: &str) -> Vec<f32> {
    blake3::hash(text.as_bytes()).as_bytes()[8..8 + NEW].iter().map(|byte| f32::from(*byte) - 127.5).collect()
}

fn encode(item: ToReembed) -> Reembedded {
    match item {
        ToReembed::Memory(row, memory) => Reembedded::Memory(row, new_encode(&memory.content)),
        ToReembed::Query { recall_id, query } => Reembedded::Query(recall_id, new_encode(&query)),
    }
}

fn put_some(store: &Store, limit: usize) -> usize {
    let batch: Vec<Reembedded> = store.reembed_missing(limit).unwrap().into_iter().map(encode).collect();
    let count = batch.len();
    store.put_reembedded(batch).unwrap();
    count
}

#[test]
fn the_move_is_resumed_and_turns_at_once() {
    let fresh = Fresh::new();
    let ids: Vec<String> = (0..30).map(|i| remember_text(&fresh.store, &format!("text {i}"))).collect();
    fresh.store.log_recall(&log("rc_1", &[Row(1), Row(2)])).unwrap();
    let useful = Label { row: Row(1), useful: true, source: "user".to_owned() };
    fresh.store.close_recall("rc_1", &[(0, useful)]).unwrap();
    assert!(matches!(fresh.store.put_reembedded(Vec::new()), Err(Error::Conflict { .. })));

    let other = EncoderStamp { model: "third".to_owned(), dimension: 3 };
    fresh.store.begin_reembed(&other).unwrap();
    fresh.store.put_reembedded(vec![Reembedded::Memory(Row(1), vec![1.0; 3])]).unwrap();
    fresh.store.begin_reembed(&new_stamp()).unwrap();
    assert_eq!(put_some(&fresh.store, 10), 10);
    assert!(matches!(fresh.store.finish_reembed(), Err(Error::Conflict { .. })));
    assert!(fresh.store.search(&super::encode("text 3"), 1, &Scope::default()).unwrap()[0].score > 0.999);

    // Another process goes on; meanwhile memories come and go under the old encoder.
    let second = Store::open("test", &fresh.namespace_folder()).unwrap();
    second.begin_reembed(&new_stamp()).unwrap();
    fresh.store.forget(What::Ids(&ids[3..5])).unwrap();
    remember_text(&fresh.store, "late");
    while put_some(&second, 7) > 0 {}
    second.finish_reembed().unwrap();

    assert_eq!(second.encoder().unwrap(), Some(new_stamp()));
    for store in [&second, &fresh.store] {
        let hits = store.search(&new_encode("late"), 100, &Scope::default()).unwrap();
        assert!(hits.len() == 29 && hits[0].score > 0.999);
        assert_eq!(store.experience_queries().unwrap(), [(1, new_encode("where?"))]);
        assert_whole(store);
    }
    // The first process still has the old encoder, and must not mix its vectors in.
    let refused = fresh.store.insert(vec![item(NewMemory::new("old encoder"))]);
    assert!(matches!(refused, Err(Error::EncoderMismatch { .. })), "{refused:?}");
    assert!(matches!(second.begin_reembed(&new_stamp()), Err(Error::Conflict { .. })));
    assert!(matches!(super::try_open(fresh.folder.path()), Err(Error::EncoderMismatch { .. })));
}

#[test]
fn rebuilding_and_compacting_change_no_answer() {
    let fresh = Fresh::new();
    let texts = (0..5_000).map(|i| item(NewMemory::new(format!("text {i} of many"))));
    let ids = fresh.store.insert(texts.collect()).unwrap();
    let gone: Vec<String> = ids.iter().step_by(3).map(|remembered| remembered.id.clone()).collect();
    fresh.store.forget(What::Ids(&gone)).unwrap();
    let ask = |store: &Store| {
        let dense = store.search(&super::encode("text 77 of many"), 50, &Scope::default()).unwrap();
        (dense, store.search_words("77 many", 50, &Scope::default()).unwrap().hits)
    };
    let before = ask(&fresh.store);
    fresh.store.rebuild_derived().unwrap();
    assert_eq!(ask(&fresh.store), before);
    let size = fresh.store.disk_usage().unwrap();
    fresh.store.compact().unwrap();
    assert!(fresh.store.disk_usage().unwrap().database_bytes < size.database_bytes);
    assert_eq!(ask(&fresh.store), before);
    assert_whole(&fresh.store);
    assert_eq!(ask(&open(fresh.folder.path())), before);
}
