//! The store against plain definitions: filters one memory at a time, search by brute force.

use std::collections::BTreeSet;

use earmark::filter::matches;
use earmark::store::{Hit, Patch, Row, Store, What};
use earmark::{Filter, Memory, NewMemory, Scope, vector};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Fresh, all, assert_whole, encode, item, metadata};

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::from),
        (-2i64..3).prop_map(Value::from),
        (-2i64..3).prop_map(|x| json!(x as f64)),
        Just(json!(0.5)),
        Just(json!(9_007_199_254_740_993_i64)),
        Just(json!(9_007_199_254_740_992.0)),
        "[abA1é]{0,2}".prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => scalar(),
        1 => Just(Value::Null),
        1 => proptest::collection::vec(scalar(), 0..3).prop_map(Value::from),
        1 => ("[ab]", scalar()).prop_map(|(key, value)| json!({key: value})),
    ]
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![Just("a"), Just("b"), Just("a.a"), Just("a.b"), Just("$x")].prop_map(str::to_owned)
}

fn time() -> impl Strategy<Value = String> {
    (1u8..4, 0u8..24, prop_oneof![Just(""), Just(".5"), Just(".0000005")])
        .prop_map(|(day, hour, rest)| format!("2027-01-{day:02}T{hour:02}:00:00{rest}Z"))
}

fn memory() -> impl Strategy<Value = NewMemory> {
    let optional = |pattern: &'static str| proptest::option::of(pattern);
    let names = (optional("[ab]"), optional("[ab]"), optional("[ab]"), optional("[ab]"));
    let keys = proptest::collection::vec((key(), value()), 0..4);
    ("[ab ]{1,4}[ab]", names, keys, proptest::collection::vec("[abA]", 0..3), proptest::option::of(time())).prop_map(
        |(content, (author, user_id, kind, session_id), keys, tags, occurred_at)| NewMemory {
            content,
            author,
            user_id,
            kind,
            session_id,
            tags,
            metadata: metadata(Value::Object(keys.into_iter().collect())),
            occurred_at: occurred_at.map(|at| at.parse().unwrap()),
            agent_id: None,
        },
    )
}

fn condition() -> impl Strategy<Value = Value> {
    let plain = prop_oneof![
        key(),
        Just("content".to_owned()),
        Just("author".to_owned()),
        Just("kind".to_owned()),
        Just("user_id".to_owned()),
        Just("session_id".to_owned()),
        Just("tags".to_owned()),
    ];
    let test = prop_oneof![
        scalar().prop_map(|value| json!({"eq": value})),
        scalar().prop_map(|value| json!({"ne": value})),
        Just(json!({"eq": null})),
        proptest::collection::vec(scalar(), 0..4).prop_map(|values| json!({"in": values})),
        proptest::collection::vec(scalar(), 0..4).prop_map(|values| json!({"nin": values})),
        (prop_oneof![Just("gt"), Just("gte"), Just("lt"), Just("lte")], -2i64..3).prop_map(|(op, x)| json!({op: x})),
        (prop_oneof![Just("gt"), Just("gte"), Just("lt"), Just("lte")], "[abA1]").prop_map(|(op, x)| json!({op: x})),
        scalar().prop_map(|value| json!({"contains": value})),
        "[abAÉ]{0,2}".prop_map(|text| json!({"icontains": text})),
        any::<bool>().prop_map(|there| json!({"exists": there})),
    ];
    let order = prop_oneof![Just("gt"), Just("gte"), Just("lt"), Just("lte"), Just("eq"), Just("ne")];
    let at = prop_oneof![time(), (1u8..4).prop_map(|day| format!("2027-01-{day:02}"))];
    prop_oneof![
        5 => (plain, test).prop_map(|(field, test)| json!({field: test})),
        1 => (order, at).prop_map(|(order, at)| json!({"occurred_at": {order: at}})),
    ]
}

fn filter() -> impl Strategy<Value = Value> {
    condition().prop_recursive(3, 12, 3, |inner| {
        let list = proptest::collection::vec(inner.clone(), 0..3);
        prop_oneof![
            list.clone().prop_map(|parts| json!({"AND": parts})),
            list.clone().prop_map(|parts| json!({"OR": parts})),
            list.prop_map(|parts| json!({"$not": parts})),
            inner.prop_map(|part| json!({"NOT": part})),
        ]
    })
}

fn passes(scope: &Scope, memory: &Memory) -> bool {
    let same = |wanted: &Option<String>, value: &Option<String>| wanted.is_none() || wanted == value;
    let at = memory.occurred_at;
    same(&scope.user_id, &memory.user_id)
        && same(&scope.agent_id, &memory.agent_id)
        && same(&scope.session_id, &memory.session_id)
        && scope.after.is_none_or(|after| at.is_some_and(|at| at >= after))
        && scope.before.is_none_or(|before| at.is_some_and(|at| at < before))
        && scope.filter.as_ref().is_none_or(|filter| matches(filter, memory))
}

fn brute_force(memories: &[(Row, Memory)], query: &[f32], k: usize, scope: &Scope) -> Vec<Hit> {
    let unit = |text: &[f32]| {
        let mut vector = text.to_vec();
        vector::normalize(&mut vector);
        vector
    };
    let query = unit(query);
    let score = |memory: &Memory| vector::dot(&query, &unit(&encode(&memory.content))).clamp(-1.0, 1.0);
    let passing = memories.iter().filter(|(_, memory)| passes(scope, memory));
    let mut hits: Vec<Hit> = passing.map(|(row, memory)| Hit { row: *row, score: score(memory) }).collect();
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.row.cmp(&b.row)));
    hits.truncate(k);
    hits
}

fn filled(memories: Vec<NewMemory>) -> Fresh {
    let fresh = Fresh::new();
    fresh.store.insert(memories.into_iter().map(item).collect()).unwrap();
    fresh
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn filters_mean_the_same_in_the_database(
        memories in proptest::collection::vec(memory(), 1..20),
        filters in proptest::collection::vec(filter(), 8),
        bounds in (proptest::option::of(time()), proptest::option::of(time()), proptest::option::of("[ab]")),
    ) {
        let fresh = filled(memories);
        let stored = all(&fresh.store);
        for json in filters {
            let scope = Scope {
                filter: Some(Filter::parse(&json).unwrap()),
                after: bounds.0.as_ref().map(|at| at.parse().unwrap()),
                before: bounds.1.as_ref().map(|at| at.parse().unwrap()),
                user_id: bounds.2.clone(),
                ..Scope::default()
            };
            let expected: Vec<Row> = stored.iter().filter(|(_, m)| passes(&scope, m)).map(|(row, _)| *row).collect();
            let listed: Vec<Row> = fresh.store.list(&scope, None, 100).unwrap().into_iter().map(|(row, _)| row).collect();
            let newest = fresh.store.list_newest(&scope, None, 100).unwrap();
            assert!(newest.iter().rev().map(|(row, _)| row).eq(&listed), "newest first is the same list");
            prop_assert_eq!(&listed, &expected, "{}", json);
            let found = fresh.store.search(&encode("q"), 5, &scope).unwrap();
            prop_assert_eq!(found, brute_force(&stored, &encode("q"), 5, &scope), "{}", json);
            let all_rows: Vec<Row> = stored.iter().map(|(row, _)| *row).collect();
            let within = fresh.store.within(&scope, &all_rows).unwrap();
            prop_assert_eq!(within.iter().filter(|passes| **passes).count(), expected.len());
        }
    }

    #[test]
    fn words_are_scored_the_same_both_ways(texts in proptest::collection::vec("[abc ]{1,12}[abc]", 1..30), query in "[abcd ]{1,9}") {
        let fresh = filled(texts.into_iter().map(NewMemory::new).collect());
        let rows: Vec<Row> = all(&fresh.store).into_iter().map(|(row, _)| row).collect();
        let scores: Vec<f32> = fresh.store.word_scores(&query, &rows).unwrap().iter().map(|s| s.bm25).collect();
        let mut expected: Vec<Hit> = rows.iter().zip(&scores).filter(|(_, s)| **s > 0.0).map(|(row, s)| Hit { row: *row, score: *s }).collect();
        expected.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.row.cmp(&b.row)));
        prop_assert_eq!(fresh.store.search_words(&query, 100, &Scope::default()).unwrap().hits, expected);
        prop_assert_eq!(fresh.store.check().unwrap(), Vec::<String>::new());
    }
}

fn large(count: usize) -> Fresh {
    let memories = (0..count).map(|i| {
        let mut memory = NewMemory::new(format!("text {i}"));
        memory.user_id = Some(format!("u{}", i % 700));
        memory.kind = Some(["odd", "even"][i % 2].to_owned());
        memory.metadata = metadata(json!({"n": i, "tenth": i % 10 == 0}));
        memory
    });
    filled(memories.collect())
}

fn check_scopes(store: &Store, seed: usize) {
    let stored = all(store);
    let filters = [
        json!({}),
        json!({"user_id": "u3"}),
        json!({"kind": "odd"}),
        json!({"n": {"lt": 40}}),
        json!({"n": {"lt": 1_500}}),
        json!({"tenth": true}),
        json!({"NOT": {"kind": "odd"}}),
        json!({"AND": [{"kind": "odd"}, {"tenth": true}]}),
        json!({"AND": [{"kind": "odd"}, {"tenth": false}, {"n": {"gte": 9_000}}]}),
        json!({"OR": [{"user_id": "u1"}, {"user_id": "u2"}]}),
        json!({"content": {"contains": "77"}}),
    ];
    for (i, filter) in filters.iter().enumerate() {
        let scope = super::scope(filter.clone());
        let query = encode(&format!("query {seed} {i}"));
        for k in [1, 20] {
            assert_eq!(store.search(&query, k, &scope).unwrap(), brute_force(&stored, &query, k, &scope), "{filter}");
        }
    }
}

#[test]
fn moments_of_cosines_follow_every_change() {
    let fresh = large(40);
    let query = encode("query");
    let check = || {
        let everything = fresh.store.search(&query, 100, &Scope::default()).unwrap();
        let (count, cosines) = (everything.len() as f64, everything.iter().map(|hit| f64::from(hit.score)));
        let mean = cosines.clone().sum::<f64>() / count;
        let variance = cosines.map(|cosine| (cosine - mean).powi(2)).sum::<f64>() / count;
        let moments = fresh.store.cosine_moments(&query).unwrap();
        assert!((f64::from(moments.mean) - mean).abs() < 1e-6, "{moments:?}, expected {mean}");
        assert!((f64::from(moments.deviation) - variance.sqrt()).abs() < 1e-6, "{moments:?}, expected {variance}");
    };
    check();
    fresh.store.insert(vec![item(NewMemory::new("query"))]).unwrap();
    check();
    let ids: Vec<String> = all(&fresh.store).into_iter().map(|(_, memory)| memory.id).collect();
    fresh.store.forget(What::Ids(&ids[30..])).unwrap();
    check();
}

#[test]
fn search_is_exact_through_segments_deletions_and_scopes() {
    let fresh = large(12_000);
    check_scopes(&fresh.store, 1);
    let ids: Vec<String> = all(&fresh.store).into_iter().map(|(_, memory)| memory.id).collect();
    let gone: Vec<String> = ids.iter().skip(5).step_by(7).cloned().collect();
    assert_eq!(fresh.store.forget(What::Ids(&gone)).unwrap(), gone.len());
    check_scopes(&fresh.store, 2);
    // A changed memory enters and leaves scopes whose rows are kept.
    for id in ids.iter().skip(6).step_by(700) {
        let changed = metadata(json!({"n": 3, "tenth": true}));
        let patch = Patch { kind: Some("odd".to_owned()), metadata: Some(changed), ..Patch::default() };
        fresh.store.update(id, patch).unwrap();
    }
    check_scopes(&fresh.store, 3);
    // More memories make a new segment, which takes the old ones in.
    fresh.store.insert((0..9_000).map(|i| item(NewMemory::new(format!("more {i}")))).collect()).unwrap();
    check_scopes(&fresh.store, 4);
    let again = super::open(fresh.folder.path());
    check_scopes(&again, 5);
    let rows: BTreeSet<Row> =
        again.search(&encode("x"), 50_000, &Scope::default()).unwrap().iter().map(|hit| hit.row).collect();
    assert_eq!(rows.len() as u64, again.count().unwrap());
    assert_whole(&again);
}

#[test]
fn thousands_of_equal_vectors_come_in_row_order() {
    let fresh = Fresh::new();
    let same = |i: usize| {
        let memory = NewMemory::new(format!("copy {i}"));
        earmark::store::Insert { vector: encode("same"), ..item(memory) }
    };
    fresh.store.insert((0..20_000).map(same).collect()).unwrap();
    let hits = fresh.store.search(&encode("same"), 30, &Scope::default()).unwrap();
    assert_eq!(hits.iter().map(|hit| hit.row.0).collect::<Vec<_>>(), (1..=30).collect::<Vec<_>>());
}
