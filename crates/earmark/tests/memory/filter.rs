//! Filters mean what they say.

use std::collections::BTreeSet;

use earmark::{Error, Filter, Namespace, NewMemory, RecallRequest, Result, Scope};
use serde_json::{Value, json};

use super::{Home, contents, store};

fn with_filter(namespace: &Namespace, filter: Value) -> Result<BTreeSet<String>> {
    let scope = Scope { filter: Some(Filter::parse(&filter)?), ..Default::default() };
    let recall = namespace.recall(&RecallRequest { top_k: Some(50), scope, ..RecallRequest::new("note") })?;
    Ok(recall.results.into_iter().map(|r| r.memory.content).collect())
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

fn remember_notes(namespace: &Namespace, metadata: &[Value]) {
    let items: Vec<NewMemory> = metadata
        .iter()
        .enumerate()
        .map(|(i, m)| NewMemory {
            metadata: m.as_object().unwrap().clone(),
            ..NewMemory::new(format!("note m{}", i + 1))
        })
        .collect();
    namespace.remember(&items).unwrap();
}

#[test]
fn true_one_and_the_word_true_are_three_things() {
    let namespace = Home::new().open_default();
    let metadata = [
        json!({"done": true, "n": 1}),
        json!({"done": 1, "n": "1"}),
        json!({"done": "true", "n": 1.0}),
        json!({"done": false, "n": 0}),
        json!({"done": null}),
        json!({}),
    ];
    remember_notes(&namespace, &metadata);
    let rows = [
        (json!({"done": {"eq": true}}), &["note m1"][..]),
        (json!({"done": {"eq": 1}}), &["note m2"]),
        (json!({"done": {"eq": "true"}}), &["note m3"]),
        (json!({"done": {"eq": false}}), &["note m4"]),
        (json!({"n": {"eq": 1}}), &["note m1", "note m3"]),
        (json!({"n": {"eq": "1"}}), &["note m2"]),
        (json!({"n": {"gt": 0}}), &["note m1", "note m3"]),
        (json!({"n": {"in": [1, "x"]}}), &["note m1", "note m3"]),
    ];
    for (filter, expected) in rows {
        assert_eq!(with_filter(&namespace, filter.clone()).unwrap(), set(expected), "{filter}");
    }
    let missing = with_filter(&namespace, json!({"done": {"exists": false}})).unwrap();
    assert!(missing.contains("note m6"));
    assert!(missing.is_disjoint(&set(&["note m1", "note m2", "note m3", "note m4"])));
}

#[test]
fn awkward_keys_are_keys() {
    let namespace = Home::new().open_default();
    let metadata = [
        json!({"billing.plan": "pro"}),
        json!({"billing": {"plan": "pro"}}),
        json!({"a\"b": "q"}),
        json!({"sp ace": "s", "$ref": "r", "über": "u"}),
        json!({"x') OR 1=1 --": "z"}),
    ];
    remember_notes(&namespace, &metadata);
    let found = |filter| with_filter(&namespace, filter).unwrap();
    assert!(found(json!({"billing.plan": {"eq": "pro"}})).contains("note m1"));
    assert_eq!(found(json!({"a\"b": {"eq": "q"}})), set(&["note m3"]));
    assert_eq!(found(json!({"sp ace": {"eq": "s"}})), set(&["note m4"]));
    assert_eq!(found(json!({"über": {"eq": "u"}})), set(&["note m4"]));
    match with_filter(&namespace, json!({"$ref": {"eq": "r"}})) {
        Ok(found) => assert_eq!(found, set(&["note m4"])),
        Err(error) => assert!(error.to_string().contains("$ref"), "{error}"),
    }
    assert_eq!(found(json!({"x') OR 1=1 --": {"eq": "nope"}})), set(&[]));
    assert_eq!(found(json!({"x') OR 1=1 --": {"eq": "z"}})), set(&["note m5"]));
}

#[test]
fn unknown_operators_are_errors() {
    let namespace = Home::new().open_default();
    store(&namespace, &["note"]);
    for filter in [json!({"n": {"approx": 1}}), json!({"n": {"gt": true}}), json!({"AND": 3}), json!("x")] {
        let error = with_filter(&namespace, filter.clone()).unwrap_err();
        assert!(matches!(error, Error::InvalidFilter { .. }), "{filter}: {error}");
    }
}

#[test]
fn a_date_ends_with_its_day() {
    let namespace = Home::new().open_default();
    let times = ["2027-02-14T18:45:00Z", "2027-02-14T23:59:59.750Z", "2027-02-15T00:00:00Z"];
    let items: Vec<NewMemory> = times
        .iter()
        .enumerate()
        .map(|(i, t)| NewMemory { occurred_at: t.parse().ok(), ..NewMemory::new(format!("note m{}", i + 1)) })
        .collect();
    namespace.remember(&items).unwrap();
    let rows = [
        (json!({"occurred_at": {"lte": "2027-02-14"}}), &["note m1", "note m2"][..]),
        (json!({"occurred_at": {"gte": "2027-02-14", "lt": "2027-02-15"}}), &["note m1", "note m2"]),
        (json!({"occurred_at": {"gt": "2027-02-14"}}), &["note m3"]),
    ];
    for (filter, expected) in rows {
        assert_eq!(with_filter(&namespace, filter.clone()).unwrap(), set(expected), "{filter}");
    }
    let scope = Scope {
        after: "2027-02-13T00:00:00Z".parse().ok(),
        before: "2027-02-15T00:00:00Z".parse().ok(),
        ..Default::default()
    };
    let recall = namespace.recall(&RecallRequest { scope, ..RecallRequest::new("note") }).unwrap();
    assert_eq!(contents(&recall).into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(["note m1", "note m2"]));
}
