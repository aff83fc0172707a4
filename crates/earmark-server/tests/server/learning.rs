//! Learning happens in the background and is steered by its verbs.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Server, text};

/// The status once `enough` holds.
async fn eventually(server: &Server, enough: impl Fn(&Value) -> bool) -> Value {
    let started = Instant::now();
    loop {
        let status = server.get("/v1/learning").await.ok();
        if enough(&status) {
            return status;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{status}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn close_one(server: &Server, query: &str) -> Value {
    let recall = server.ok("/v1/recall", &json!({"query": query})).await;
    server.ok(&format!("/v1/recalls/{}/feedback", text(&recall, "recall_id")), &json!({"answer": "So [2]."})).await
}

#[tokio::test]
async fn feedback_is_answered_first_and_learned_from_then() {
    let server = Server::new();
    server.remember("default", &["red apple", "green apple", "blue apple"]).await;
    let report = close_one(&server, "apple").await;
    assert_eq!(
        (&report["closed"], &report["learning_version"]),
        (&json!(true), &json!(0)),
        "not learned within the call"
    );
    let status = eventually(&server, |status| status["version"] == 1).await;
    assert_eq!(status["labels"]["answer"], json!({"useful": 1, "not_useful": 2}));
    assert_eq!(server.ok("/v1/recall", &json!({"query": "apple"})).await["learning_version"], 1);
}

#[tokio::test]
async fn verbs_steer_learning() {
    let server = Server::new();
    server.remember("default", &["red apple", "green apple", "blue apple"]).await;
    close_one(&server, "apple").await;
    eventually(&server, |status| status["version"] == 1).await;
    assert_eq!(server.ok("/v1/learning/freeze", &json!({})).await["frozen"], true);
    close_one(&server, "apple again").await;
    server.app.finish();
    assert_eq!(server.get("/v1/learning").await.ok()["version"], 1, "frozen");
    let learned = server.post("/v1/learning/unfreeze", &json!({"namespace": "default"})).await.ok();
    assert_eq!((&learned["frozen"], &learned["version"]), (&json!(false), &json!(2)));
    let back = server.ok("/v1/learning/rollback", &json!({"version": 1})).await;
    assert_eq!((&back["version"], &back["frozen"]), (&json!(1), &json!(true)));
    server.post("/v1/learning/rollback", &json!({"version": 99})).await.problem(404, "99");
    assert_eq!(server.ok("/v1/learning/reset", &json!({})).await["version"], 0);
    assert_eq!(server.ok("/v1/learning/train", &json!({})).await["experiences"], 2);
    server.post("/v1/learning/reset", &json!({"namespace": "none"})).await.problem(404, "none");
    server.post("/v1/learning/reset", &json!({"name": "default"})).await.problem(400, "name");
}
