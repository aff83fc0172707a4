//! Filters, times and owners restrict what may answer.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::Home;

fn found(home: &Home, args: &[&str]) -> BTreeSet<String> {
    let all = [&["-k", "50"], args].concat();
    home.recalled(&all).into_iter().collect()
}

fn check(home: &Home, filter: &Value, expected: &[&str]) {
    let expected: BTreeSet<String> = expected.iter().map(|name| format!("note {name}")).collect();
    assert_eq!(found(home, &["note", "--filter", &filter.to_string()]), expected, "{filter}");
}

/// B03: true, 1 and "true" are three things.
#[test]
fn values_keep_their_type() {
    let home = Home::new();
    let metadata = [
        json!({"done": true, "n": 1}),
        json!({"done": 1, "n": "1"}),
        json!({"done": "true", "n": 1.0}),
        json!({"done": false, "n": 0}),
        json!({"done": null}),
        json!({}),
    ];
    let line = |(i, metadata): (usize, &Value)| json!({"content": format!("note m{}", i + 1), "metadata": metadata});
    home.remember_lines(&metadata.iter().enumerate().map(line).collect::<Vec<_>>());
    check(&home, &json!({"done": {"eq": true}}), &["m1"]);
    check(&home, &json!({"done": {"eq": 1}}), &["m2"]);
    check(&home, &json!({"done": {"eq": "true"}}), &["m3"]);
    check(&home, &json!({"done": {"eq": false}}), &["m4"]);
    check(&home, &json!({"n": {"eq": 1}}), &["m1", "m3"]);
    check(&home, &json!({"n": {"eq": "1"}}), &["m2"]);
    check(&home, &json!({"n": {"gt": 0}}), &["m1", "m3"]);
    check(&home, &json!({"n": {"in": [1, "x"]}}), &["m1", "m3"]);
    let without = found(&home, &["note", "--filter", r#"{"done": {"exists": false}}"#]);
    assert!(without.contains("note m6") && without.iter().all(|m| m == "note m5" || m == "note m6"), "{without:?}");
}

#[test]
fn what_a_filter_cannot_mean_is_an_error() {
    let home = Home::new();
    home.ok(&["remember", "note"]);
    for (filter, named) in
        [(r#"{"n": {"bigger": 1}}"#, "bigger"), (r#"{"n": {"gt": [1]}}"#, "n"), ("{", "JSON"), ("[1]", "filter")]
    {
        let error = home.fails(2, &["recall", "note", "--filter", filter]);
        assert!(error.contains(named), "{error}");
        home.fails(2, &["forget", "--yes", "--filter", filter]);
    }
    assert_eq!(home.exported().len(), 1);
}

#[test]
fn tags_are_a_filter_of_their_own() {
    let home = Home::new();
    home.ok(&["remember", "note m1", "--tag", "home", "--tag", "bins", "--metadata", "{\"n\": 1}"]);
    home.ok(&["remember", "note m2", "--tag", "home"]);
    assert_eq!(found(&home, &["note", "--tag", "home"]).len(), 2);
    assert_eq!(home.recalled(&["note", "--tag", "home", "--tag", "bins"]), ["note m1"]);
    assert_eq!(home.recalled(&["note", "--tag", "home", "--filter", "{\"n\": 1}"]), ["note m1"]);
    assert_eq!(home.json(&["forget", "--tag", "bins", "--yes"])["forgotten"], 1);
}

/// B08: a date as the end of a range.
#[test]
fn a_date_is_midnight_and_never_swallows_a_day() {
    let home = Home::new();
    for (name, at) in
        [("m1", "2027-02-14T18:45:00Z"), ("m2", "2027-02-14T23:59:59.750Z"), ("m3", "2027-02-15T00:00:00Z")]
    {
        home.ok(&["remember", &format!("note {name}"), "--at", at]);
    }
    check(&home, &json!({"occurred_at": {"lte": "2027-02-14"}}), &["m1", "m2"]);
    check(&home, &json!({"occurred_at": {"gte": "2027-02-14", "lt": "2027-02-15"}}), &["m1", "m2"]);
    check(&home, &json!({"occurred_at": {"gt": "2027-02-14"}}), &["m3"]);
    let between = found(&home, &["note", "--after", "2027-02-13", "--before", "2027-02-15"]);
    assert_eq!(between, ["note m1", "note m2"].map(str::to_owned).into());
}

#[test]
fn owners_and_namespaces_keep_apart() {
    let home = Home::new();
    home.ok(&["remember", "note of u1", "--user", "u1"]);
    home.ok(&["remember", "note of u2", "--user", "u2"]);
    home.ok(&["-n", "other", "remember", "note elsewhere"]);
    assert_eq!(home.recalled(&["note", "--user", "u1"]), ["note of u1"]);
    assert_eq!(home.recalled(&["-n", "other", "note"]), ["note elsewhere"]);
    assert_eq!(home.recalled(&["note", "--user", "nobody"]), [""; 0]);
    let error = home.fails(3, &["-n", "nowhere", "recall", "note"]);
    assert!(error.contains("nowhere"), "{error}");
    assert_eq!(home.json(&["namespaces"]).as_array().unwrap().len(), 2, "reading makes no namespace");
    home.fails(2, &["namespaces", "--remove", "other"]);
    home.ok(&["namespaces", "--remove", "other", "--yes"]);
    home.fails(3, &["namespaces", "--remove", "other", "--yes"]);
    assert_eq!(home.json(&["namespaces"]).as_array().unwrap().len(), 1);
}
