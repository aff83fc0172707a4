//! Door three: a model judges slates.

use std::time::{Duration, Instant};

use earmark::critic::LlmOptions;
use earmark_server::{Config, CriticConfig};
use serde_json::{Value, json};

use crate::{
    endpoint::Endpoint,
    support::{Server, text},
};

fn config(endpoint: &Endpoint) -> CriticConfig {
    CriticConfig::new(LlmOptions { retries: 0, ..LlmOptions::new(&endpoint.base, "judge") })
}

fn with(critic: CriticConfig) -> Server {
    Server::with(Config { critic: Some(critic), ..Default::default() })
}

/// Enough memories for a question to be worth exploring.
async fn remember_keys(server: &Server) {
    let texts: Vec<String> = (0..12).map(|i| format!("key number {i} hangs behind door {i}")).collect();
    server.remember("default", &texts.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

/// The status of a namespace once so many of its recalls are closed.
async fn once_closed(server: &Server, namespace: &str, closed: u64) -> Value {
    let started = Instant::now();
    loop {
        let status = server.get(&format!("/v1/learning?namespace={namespace}")).await.ok();
        if status["experiences"] == closed {
            return status;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{status}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recall_explores_with_the_critic() {
    let endpoint = Endpoint::saying("It hangs there [1].").await;
    let server = with(config(&endpoint));
    remember_keys(&server).await;
    let recall = server.ok("/v1/recall", &json!({"query": "key", "explore": "on", "max_critic_calls": 2})).await;
    assert_eq!(recall["critic_calls"], 2);
    assert_eq!(endpoint.asked().len(), 2);
    let logged = server.get(&format!("/v1/recalls/{}", text(&recall, "recall_id"))).await.ok();
    assert_eq!(logged["rounds"].as_array().unwrap().len(), 3);
    assert_eq!(logged["rounds"][0]["sources"], json!(["critic"]));
    assert!(server.get("/metrics").await.text.contains("earmark_critic_calls_total 2\n"));
    server
        .post("/v1/recall", &json!({"query": "key", "explore": "on", "max_critic_calls": 51}))
        .await
        .problem(400, "50");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_critic_that_fails_costs_no_answer_and_its_address_is_not_told() {
    let server = Server::new();
    server.remember("default", &["key"]).await;
    server.post("/v1/recall", &json!({"query": "key", "explore": "auto"})).await.problem(400, "EARMARK_CRITIC_URL");
    let gone = with(CriticConfig::new(LlmOptions { retries: 0, ..LlmOptions::new("http://127.0.0.1:9", "judge") }));
    remember_keys(&gone).await;
    let recall = gone.ok("/v1/recall", &json!({"query": "key", "explore": "on"})).await;
    assert_eq!(recall["results"].as_array().unwrap().len(), 5, "the best memories are served all the same");
    let warning = text(&recall, "warning");
    assert!(warning.contains("the critic failed") && !warning.contains("127.0.0.1:9"), "{warning}");
    let body = json!({"recall_id": text(&recall, "recall_id"), "answer": "Behind door 1 [1]."});
    assert!(gone.ok("/v1/recall", &json!({"query": "key", "previous": body})).await.get("warning").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn recalls_left_open_are_closed_where_that_is_wanted() {
    let endpoint = Endpoint::serve(|asked| {
        let question = asked.json()["messages"][1]["content"].as_str().unwrap().to_owned();
        crate::endpoint::said(if question.contains("riddle") { "Who knows." } else { "There [1]." })
    })
    .await;
    let watched = || CriticConfig {
        namespaces: vec!["work".to_owned()],
        close_after: Duration::ZERO,
        calls_a_minute: 3,
        ..config(&endpoint)
    };
    // Asked before there is a critic: what waits is in the store.
    let first = Server::new();
    for namespace in ["work", "home"] {
        first.remember(namespace, &["the key hangs behind the boiler"]).await;
    }
    for query in ["riddle", "key one", "key two", "key three"] {
        first.ok("/v1/recall", &json!({"namespace": "work", "query": query})).await;
    }
    first.ok("/v1/recall", &json!({"namespace": "home", "query": "key"})).await;
    let second = Server::on(first.folder, Config { critic: Some(watched()), ..Default::default() });
    let status = once_closed(&second, "work", 2).await;
    assert_eq!(status["labels"]["critic"]["useful"], 2);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(endpoint.asked().len(), 3, "three calls a minute, and none twice for the riddle");
    assert_eq!(second.get("/v1/learning?namespace=home").await.ok()["experiences"], 0, "nobody asked for it there");
    second.app.finish();
    assert!(second.get("/metrics").await.text.contains("earmark_recalls_closed_total{door=\"critic\"} 2\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recall_that_the_critic_always_fails_over_does_not_hold_up_the_rest() {
    let endpoint = Endpoint::serve(|asked| {
        let question = asked.json()["messages"][1]["content"].as_str().unwrap().to_owned();
        if question.contains("endless") {
            return axum::response::Response::builder().status(400).body("too long".into()).unwrap();
        }
        crate::endpoint::said("There [1].")
    })
    .await;
    let config = CriticConfig {
        namespaces: vec!["*".to_owned()],
        close_after: Duration::ZERO,
        calls_a_minute: 60,
        ..config(&endpoint)
    };
    let first = Server::new();
    first.remember("work", &["the key hangs behind the boiler"]).await;
    for query in ["endless key", "key"] {
        first.ok("/v1/recall", &json!({"namespace": "work", "query": query})).await;
    }
    let server = Server::on(first.folder, Config { critic: Some(config), ..Default::default() });
    once_closed(&server, "work", 1).await;
    assert_eq!(endpoint.asked().len(), 4, "three times, then the next");
    server.app.finish();
}
