//! Traps that memories behind HTTP fell into, each with the right behaviour.

use std::collections::BTreeSet;

use axum::{body::Body, http::Request};
use serde_json::{Value, json};

use crate::support::{Server, contents, text};

#[tokio::test]
async fn misspelt_fields_are_named() {
    let server = Server::new();
    server.ok("/v1/memories", &json!({"content": "of one", "user_id": "u1"})).await;
    server.ok("/v1/memories", &json!({"content": "of two", "user_id": "u2"})).await;
    for (body, named) in [
        (json!({"query": "q", "topk": 1}), "topk"),
        (json!({"query": "q", "filter": {"user_id": "u1"}}), "filter"),
        (json!({"query": "q", "user": "u1"}), "user"),
    ] {
        let answer = server.post("/v1/recall", &body).await;
        answer.problem(400, named);
        assert_eq!(answer.json()["field"], named);
    }
    let misspelt = json!({"content": "x", "occured_at": "2027-01-01T00:00:00Z"});
    server.post("/v1/memories", &misspelt).await.problem(400, "occured_at");
}

#[tokio::test]
async fn null_is_nothing_and_empty_is_an_error() {
    let server = Server::new();
    server.remember("default", &["The gate code is 4471."]).await;
    let nulls = json!({"query": "gate code", "filters": null, "after": null, "session_id": null, "top_k": null});
    assert_eq!(server.recalled(&nulls).await.len(), 1);
    for field in ["user_id", "session_id", "after"] {
        let mut body = json!({"query": "gate code"});
        body[field] = json!("");
        server.post("/v1/recall", &body).await.problem(400, field);
    }
}

#[tokio::test]
async fn blank_and_odd_texts() {
    let server = Server::new();
    for blank in ["", "   ", "\n\t\r\n"] {
        server.post("/v1/memories", &json!({"content": blank})).await.problem(400, "blank");
        server.post("/v1/recall", &json!({"query": blank})).await.problem(400, "blank");
    }
    server.remember("default", &["\u{2026}", "\u{1fae5}", "The spare key hangs behind the boiler."]).await;
    let recall = server.ok("/v1/recall", &json!({"query": "where is the spare key?", "top_k": 10})).await;
    assert!(contents(&recall)[0].contains("boiler"));
    for result in recall["results"].as_array().unwrap() {
        let scores = result["scores"].as_object().unwrap().values();
        assert!(scores.chain([&result["score"]]).all(Value::is_number), "{result}");
    }
}

#[tokio::test]
async fn true_one_and_the_word_true_are_three_things() {
    let server = Server::new();
    let metadata = [
        json!({"done": true, "n": 1}),
        json!({"done": 1, "n": "1"}),
        json!({"done": "true", "n": 1.0}),
        json!({"done": false, "n": 0}),
        json!({"done": null}),
        json!({}),
    ];
    let items: Vec<Value> =
        (1..).zip(&metadata).map(|(k, m)| json!({"content": format!("note {k}"), "metadata": m})).collect();
    server.ok("/v1/memories", &json!({"memories": items})).await;
    for (filter, expected) in [
        (json!({"done": {"eq": true}}), "1"),
        (json!({"done": {"eq": 1}}), "2"),
        (json!({"done": {"eq": "true"}}), "3"),
        (json!({"n": {"eq": 1}}), "1 3"),
        (json!({"n": {"gt": 0}}), "1 3"),
        (json!({"n": {"in": [1, "x"]}}), "1 3"),
        (json!({"done": {"exists": false}}), "5 6"),
    ] {
        let found = server.recalled(&json!({"query": "note", "top_k": 10, "filters": filter})).await;
        let found: BTreeSet<_> = found.iter().map(|text| text[5..].to_owned()).collect();
        assert_eq!(found.into_iter().collect::<Vec<_>>().join(" "), expected, "{filter}");
        // The same through a query string.
        let encoded: String = filter.to_string().bytes().map(|b| format!("%{b:02x}")).collect();
        let listed = server.get(&format!("/v1/memories?filters={encoded}")).await.ok();
        assert_eq!(listed["memories"].as_array().unwrap().len(), expected.split(' ').count(), "{filter}");
    }
    server.post("/v1/recall", &json!({"query": "q", "filters": {"n": {"near": 1}}})).await.problem(400, "near");
}

#[tokio::test]
async fn byte_order_marks_and_bad_lines() {
    let server = Server::new();
    let mut bytes = vec![0xEF, 0xBB, 0xBF];
    bytes.extend(b"{\"content\":\"first apple\"}\r\n\r\n{\"content\":\"second pear\"}\n{\"content\":\n");
    bytes.extend(b"{\"kind\":\"entity\"}\n{\"content\":\"third plum\"}");
    let send = || {
        Request::post("/v1/import").header("content-type", "application/json").body(Body::from(bytes.clone())).unwrap()
    };
    let report = server.send(send()).await.ok();
    assert_eq!(report["created"], 3);
    let lines: Vec<_> = report["refused"].as_array().unwrap().iter().map(|r| r["line"].clone()).collect();
    assert_eq!(lines, [4, 5]);
    assert_eq!(server.send(send()).await.ok()["created"], 0, "a second run adds nothing");
}

#[tokio::test]
async fn control_sequences_come_back_as_they_went() {
    let server = Server::new();
    let content = "safe\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}end";
    server.ok("/v1/memories", &json!({"content": content, "author": "\u{1b}]8;;x\u{1b}\\"})).await;
    let answer = server.post("/v1/recall", &json!({"query": "safe"})).await;
    assert!(answer.text.bytes().all(|b| b >= 0x20), "escaped as JSON");
    assert_eq!(answer.json()["results"][0]["content"], content);
}

#[tokio::test]
async fn ways_to_cite() {
    let server = Server::new();
    server.remember("default", &["a note", "b note", "c note", "d note", "e note"]).await;
    for (answer, used, unknown) in [
        ("Dinner is at seven [2].", vec![2], vec![]),
        ("Both say so [1, 3].", vec![1, 3], vec![]),
        ("Both say so [1][3].", vec![1, 3], vec![]),
        ("见【4】。", vec![4], vec![]),
        ("All of these [1-3].", vec![1, 2, 3], vec![]),
        ("See [4](https://example.org/menu).", vec![], vec![]),
        ("As noted [9].", vec![], vec![9]),
    ] {
        let recall = server.ok("/v1/recall", &json!({"query": "note", "top_k": 5})).await;
        let path = format!("/v1/recalls/{}/feedback", text(&recall, "recall_id"));
        let report = server.ok(&path, &json!({"answer": answer})).await;
        let ids: Vec<_> = used.iter().map(|n| recall["results"][n - 1]["id"].clone()).collect();
        assert_eq!(report["useful"], json!(ids), "{answer}");
        assert_eq!(report["unknown_citations"], json!(unknown), "{answer}");
        if !unknown.is_empty() {
            assert_eq!(report["not_useful"], json!([]), "{answer}");
        }
    }
}

#[tokio::test]
async fn recalls_without_feedback_change_nothing() {
    let server = Server::new();
    let texts: Vec<String> = (0..50).map(|i| format!("note {i} about topic {}", i % 7)).collect();
    server.ok("/v1/memories", &json!({"content": texts})).await;
    let ask = json!({"query": "topic 3"});
    let scores = |recall: &Value| -> Vec<Value> {
        recall["results"].as_array().unwrap().iter().map(|r| json!([r["id"], r["score"], r["scores"]])).collect()
    };
    let first = server.ok("/v1/recall", &ask).await;
    for _ in 0..200 {
        server.ok("/v1/recall", &ask).await;
    }
    let last = server.ok("/v1/recall", &ask).await;
    assert_eq!(scores(&first), scores(&last));
    assert_eq!(last["learning_version"], 0);
    let late = format!("/v1/recalls/{}/feedback", text(&first, "recall_id"));
    assert_eq!(server.ok(&late, &json!({"useful": ["1"]})).await["closed"], true);
}
