//! Inputs that other products fell over.

use earmark::store::Row;
use earmark::{Error, NewMemory, Scope};
use serde_json::{Value, json};

use super::{Fresh, all, assert_whole, encode, metadata, remember, remember_text, scope};

/// Names (contents) that pass a filter, by listing, by vectors and by words: all three must agree.
fn passing(fresh: &Fresh, filter: Value) -> Vec<String> {
    let scope = scope(filter.clone());
    let listed: Vec<String> =
        fresh.store.list(&scope, None, 100).unwrap().into_iter().map(|(_, memory)| memory.content).collect();
    for hits in [
        fresh.store.search(&encode("x"), 100, &scope).unwrap(),
        fresh.store.search_words("note", 100, &scope).unwrap().hits,
    ] {
        let mut rows: Vec<Row> = hits.into_iter().map(|hit| hit.row).collect();
        rows.sort_unstable();
        let found: Vec<String> =
            fresh.store.memories(&rows).unwrap().into_iter().map(|(_, memory)| memory.content).collect();
        assert_eq!(found, listed, "{filter}");
    }
    listed.into_iter().map(|content| content.replace("note ", "")).collect()
}

fn notes(metadata_of: &[(&str, Value)]) -> Fresh {
    let fresh = Fresh::new();
    for (name, json) in metadata_of {
        let mut memory = NewMemory::new(format!("note {name}"));
        memory.metadata = metadata(json.clone());
        remember(&fresh.store, memory);
    }
    fresh
}

fn check_filters(fresh: &Fresh, rows: &[(Value, &[&str])]) {
    for (filter, expected) in rows {
        assert_eq!(passing(fresh, filter.clone()), *expected, "{filter}");
    }
}

#[test]
fn true_one_and_text_are_three_things() {
    let fresh = notes(&[
        ("m1", json!({"done": true, "n": 1})),
        ("m2", json!({"done": 1, "n": "1"})),
        ("m3", json!({"done": "true", "n": 1.0})),
        ("m4", json!({"done": false, "n": 0})),
        ("m5", json!({"done": null})),
        ("m6", json!({})),
    ]);
    check_filters(
        &fresh,
        &[
            (json!({"done": {"eq": true}}), &["m1"]),
            (json!({"done": {"eq": 1}}), &["m2"]),
            (json!({"done": {"eq": "true"}}), &["m3"]),
            (json!({"done": {"eq": false}}), &["m4"]),
            (json!({"n": {"eq": 1}}), &["m1", "m3"]),
            (json!({"n": {"eq": "1"}}), &["m2"]),
            (json!({"n": {"gt": 0}}), &["m1", "m3"]),
            (json!({"n": {"in": [1, "x"]}}), &["m1", "m3"]),
            (json!({"done": {"exists": false}}), &["m5", "m6"]),
            (json!({"done": {"ne": true}}), &["m2", "m3", "m4", "m5", "m6"]),
            (json!({}), &["m1", "m2", "m3", "m4", "m5", "m6"]),
        ],
    );
}

#[test]
fn awkward_keys() {
    let fresh = notes(&[
        ("m1", json!({"billing.plan": "pro"})),
        ("m2", json!({"billing": {"plan": "pro"}})),
        ("m3", json!({"a\"b": "q"})),
        ("m4", json!({"sp ace": "s", "$ref": "r", "\u{fc}ber": "u"})),
        ("m5", json!({"x') OR 1=1 --": "z"})),
        ("m6", json!({"author": "meta", "nul\u{0}key": "a\u{0}b"})),
    ]);
    check_filters(
        &fresh,
        &[
            (json!({"billing.plan": {"eq": "pro"}}), &["m1", "m2"]),
            (json!({"metadata.billing.plan": "pro"}), &["m1", "m2"]),
            (json!({"a\"b": {"eq": "q"}}), &["m3"]),
            (json!({"sp ace": {"eq": "s"}}), &["m4"]),
            (json!({"\u{fc}ber": {"eq": "u"}}), &["m4"]),
            (json!({"$ref": {"eq": "r"}}), &["m4"]),
            (json!({"x') OR 1=1 --": {"eq": "nope"}}), &[]),
            (json!({"x') OR 1=1 --": {"eq": "z"}}), &["m5"]),
            (json!({"author": "meta"}), &[]),
            (json!({"metadata.author": "meta"}), &["m6"]),
            (json!({"nul\u{0}key": {"contains": "\u{0}b"}}), &["m6"]),
            (json!({"nul\u{0}key": "a\u{0}b"}), &["m6"]),
            (json!({"nul\u{0}key": "a"}), &[]),
        ],
    );
}

#[test]
fn lists_and_texts() {
    let fresh = Fresh::new();
    let mut memory = NewMemory::new("note m1");
    memory.tags = vec!["Red".to_owned(), "blue".to_owned()];
    memory.metadata = metadata(json!({"sizes": [1, 2.5, true, "XL"], "title": "Über den Wolken"}));
    remember(&fresh.store, memory);
    remember_text(&fresh.store, "note m2");
    check_filters(
        &fresh,
        &[
            (json!({"tags": {"contains": "blue"}}), &["m1"]),
            (json!({"tags": "blue"}), &["m1"]),
            (json!({"tags": {"contains": "red"}}), &[]),
            (json!({"tags": {"icontains": "RED"}}), &["m1"]),
            (json!({"tags": {"exists": false}}), &["m2"]),
            (json!({"sizes": {"contains": 1.0}}), &["m1"]),
            (json!({"sizes": {"contains": true}}), &["m1"]),
            (json!({"sizes": {"contains": "X"}}), &[]),
            (json!({"title": {"contains": "den"}}), &["m1"]),
            (json!({"title": {"icontains": "ÜBER"}}), &["m1"]),
            (json!({"content": {"contains": "m2"}}), &["m2"]),
            (json!({"OR": [{"content": {"contains": "m2"}}, {"tags": {"in": ["blue"]}}]}), &["m1", "m2"]),
            (json!({"NOT": [{"tags": "blue"}, {"content": "note m2"}]}), &[]),
        ],
    );
}

#[test]
fn a_date_ends_with_its_day() {
    let fresh = Fresh::new();
    for (name, at) in
        [("m1", "2027-02-14T18:45:00Z"), ("m2", "2027-02-14T23:59:59.750Z"), ("m3", "2027-02-15T00:00:00Z")]
    {
        let occurred_at = Some(at.parse().unwrap());
        remember(&fresh.store, NewMemory { occurred_at, ..NewMemory::new(format!("note {name}")) });
    }
    check_filters(
        &fresh,
        &[
            (json!({"occurred_at": {"lte": "2027-02-14"}}), &["m1", "m2"]),
            (json!({"occurred_at": {"gte": "2027-02-14", "lt": "2027-02-15"}}), &["m1", "m2"]),
            (json!({"occurred_at": {"gt": "2027-02-14"}}), &["m3"]),
            (json!({"occurred_at": {"eq": "2027-02-14"}}), &["m1", "m2"]),
            (json!({"occurred_at": {"eq": "2027-02-14T18:45:00Z"}}), &["m1"]),
            (json!({"occurred_at": {"lte": "2027-02-14T19:45:00+01:00"}}), &["m1"]),
        ],
    );
    let bounds = Scope {
        after: Some("2027-02-13T00:00:00Z".parse().unwrap()),
        before: Some("2027-02-15T00:00:00Z".parse().unwrap()),
        ..Scope::default()
    };
    assert_eq!(fresh.store.list(&bounds, None, 10).unwrap().len(), 2);
}

#[test]
fn no_query_syntax() {
    let fresh = Fresh::new();
    let sentences = [
        "Ticket QX-58213 was closed on 2027-04-17 by Ines.",
        "Don't restart the C++ build behind /api/forge (v3.2) before 18:00.",
        "Link speed is 40 GB/s at 99.5% load, says status: green.",
    ];
    let rows: Vec<String> = sentences.iter().map(|text| remember_text(&fresh.store, text)).collect();
    (0..20)
        .for_each(|i| drop(remember_text(&fresh.store, &format!("Sentence {i} is about other matters, not those."))));
    let expected: [(usize, &[&str]); 3] = [
        (
            0,
            &[
                "QX-58213",
                "2027-04-17",
                "\"closed on",
                "^ticket",
                "content:ticket",
                "{ticket} -ines",
                "ticket \"\" ines",
            ],
        ),
        (1, &["don't restart", "C++ build", "/api/forge", "(v3.2)", "18:00", "forge OR", "NEAR(forge build", "forge*"]),
        (2, &["status: green", "40 GB/s", "99.5%", "NOT green"]),
    ];
    for (sentence, queries) in expected {
        for query in queries {
            let hits = fresh.store.search_words(query, 3, &Scope::default()).unwrap().hits;
            let best = fresh.store.memories(&[hits[0].row]).unwrap().remove(0).1;
            assert_eq!(best.id, rows[sentence], "{query}");
            assert!(hits[0].score > 0.0);
        }
    }
}

#[test]
fn words_of_scripts_without_spaces() {
    let fresh = Fresh::new();
    let texts =
        ["我们决定周五上线新版本", "昨天重启kafka集群三次", "来週の会議は水曜日です", "서울역에서 만나기로 했다"];
    texts.iter().for_each(|text| drop(remember_text(&fresh.store, text)));
    for (query, at) in [("上线", 0), ("周五", 0), ("kafka", 1), ("会議", 2), ("水曜", 2), ("서울역", 3), ("次", 1)]
    {
        let hits = fresh.store.search_words(query, 3, &Scope::default()).unwrap().hits;
        let best = fresh.store.memories(&[hits[0].row]).unwrap().remove(0).1;
        assert_eq!(best.content, texts[at], "{query}");
    }
}

#[test]
fn blank_texts_are_refused_with_their_place() {
    let fresh = Fresh::new();
    for blank in ["", "   ", "\n\t\r\n", "\u{200b}\u{200b}"] {
        let items = vec![super::item(NewMemory::new("good")), super::item(NewMemory::new(blank))];
        match fresh.store.insert(items) {
            Err(Error::InvalidInput { field, .. }) => assert_eq!(field, "items[1].content"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(fresh.store.count().unwrap(), 0);
}

#[test]
fn unusual_texts_come_back_as_they_were() {
    let fresh = Fresh::new();
    let long = "word ".repeat(1_000_000) + "endmarker";
    let texts = ["\u{2026}", "\u{1fae5}", "a\u{0}b", "שלום עולם", "  kept  ", long.as_str()];
    for text in texts {
        let id = remember_text(&fresh.store, text);
        assert_eq!(fresh.store.get(&id).unwrap().unwrap().content, text);
    }
    let hits = fresh.store.search_words("endmarker", 1, &Scope::default()).unwrap().hits;
    assert_eq!(fresh.store.memories(&[hits[0].row]).unwrap()[0].1.content.len(), long.len());
    // The zero vector is nobody's neighbour, and no number of it is undefined.
    let zero = earmark::store::Insert { vector: vec![0.0; 8], ..super::item(NewMemory::new("zero")) };
    fresh.store.insert(vec![zero]).unwrap();
    let hits = fresh.store.search(&encode("kept"), 10, &Scope::default()).unwrap();
    assert!(hits.iter().all(|hit| hit.score.is_finite()));
    assert_whole(&fresh.store);
}

#[test]
fn vectors_that_do_not_fit_are_refused() {
    let fresh = Fresh::new();
    for vector in [vec![1.0; 7], vec![f32::NAN; 8], Vec::new()] {
        let wrong = earmark::store::Insert { vector, ..super::item(NewMemory::new("x")) };
        assert!(matches!(fresh.store.insert(vec![wrong]), Err(Error::InvalidInput { .. })));
    }
    assert!(matches!(fresh.store.search(&[1.0; 3], 5, &Scope::default()), Ok(hits) if hits.is_empty()));
    remember_text(&fresh.store, "x");
    assert!(matches!(fresh.store.search(&[1.0; 3], 5, &Scope::default()), Err(Error::InvalidInput { .. })));
    let other = super::stamp("another");
    assert!(matches!(fresh.store.stamp_encoder(&other), Err(Error::EncoderMismatch { .. })));
}

#[test]
fn neighbours_follow_the_time_within_a_session() {
    let fresh = Fresh::new();
    let turn = |text: &str, session: Option<&str>, minute: i64| NewMemory {
        session_id: session.map(str::to_owned),
        occurred_at: Some(jiff::Timestamp::from_second(60 * minute).unwrap()),
        ..NewMemory::new(text)
    };
    for memory in [
        turn("third", Some("a"), 3),
        turn("first", Some("a"), 1),
        turn("else", Some("b"), 2),
        turn("second", Some("a"), 1),
        turn("none", None, 1),
    ] {
        remember(&fresh.store, memory);
    }
    let memories = fresh.store.memories(&(1..=5).map(Row).collect::<Vec<_>>()).unwrap();
    let around = |reach: usize| -> Vec<[Vec<i64>; 2]> {
        let found = fresh.store.neighbours(&memories, reach).unwrap().into_iter();
        found.map(|n| [n.before, n.after].map(|rows| rows.iter().map(|row| row.0).collect())).collect()
    };
    let none = || [vec![], vec![]];
    assert_eq!(around(1), [[vec![4], vec![]], [vec![], vec![4]], none(), [vec![2], vec![1]], none()]);
    assert_eq!(around(2), [[vec![4, 2], vec![]], [vec![], vec![4, 1]], none(), [vec![2], vec![1]], none()]);
}

#[test]
fn an_update_reaches_every_index() {
    use earmark::store::{NewContent, Patch};
    let fresh = Fresh::new();
    let id = remember_text(&fresh.store, "the old words");
    let other = remember_text(&fresh.store, "another memory");
    let content = |text: &str| Some(NewContent { content: text.into(), vector: encode(text), words: text.into() });
    let patch = Patch {
        content: content("some new text"),
        tags: Some(vec!["t".to_owned()]),
        author: Some(Some("ana".to_owned())),
        ..Patch::default()
    };
    let changed = fresh.store.update(&id, patch).unwrap();
    assert_eq!(fresh.store.get(&id).unwrap().unwrap(), changed);
    let everything = Scope::default();
    assert!(fresh.store.search_words("old", 5, &everything).unwrap().hits.is_empty());
    assert_eq!(fresh.store.search_words("new", 5, &everything).unwrap().hits[0].row, Row(1));
    let best = fresh.store.search(&encode("some new text"), 2, &everything).unwrap();
    assert!(best[0].row == Row(1) && best[0].score > 0.999 && best.len() == 2);
    assert_eq!(fresh.store.list(&scope(json!({"tags": "t", "author": "ana"})), None, 5).unwrap().len(), 1);
    let same = fresh.store.update(
        &other,
        Patch { content: content("some new text"), author: Some(Some("ana".into())), ..Patch::default() },
    );
    assert!(matches!(same, Err(Error::Conflict { .. })));
    assert!(matches!(fresh.store.update("m_0", Patch::default()), Err(Error::NotFound { .. })));
    assert_eq!(all(&fresh.store)[1].1.content, "another memory");
    assert_whole(&fresh.store);
}
