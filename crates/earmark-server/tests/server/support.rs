//! A server with a folder of its own, and calls of its router.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Request, StatusCode},
};
use earmark::{
    Earmark, Result, Settings,
    encode::{Encoder, Side},
};
use earmark_server::{App, Config, router};
use http_body_util::BodyExt;
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt;

/// A bag of hashed words: deterministic, and similar where words are shared.
pub(crate) struct Words;

impl Encoder for Words {
    fn model(&self) -> &str {
        "bag-of-words"
    }

    fn dimension(&self) -> usize {
        512
    }

    fn encode(&self, texts: &[&str], _: Side) -> Result<Vec<Vec<f32>>> {
        Ok(texts.iter().map(|text| bag(text)).collect())
    }
}

pub(crate) fn bag(text: &str) -> Vec<f32> {
    let mut vector = vec![0.01; 512];
    for word in text.to_lowercase().split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()) {
        let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        vector[(hash >> 32) as usize % 512] += 1.0;
    }
    vector
}

pub(crate) struct Server {
    pub(crate) folder: TempDir,
    pub(crate) app: App,
    router: Router,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Server {
    pub(crate) fn new() -> Server {
        Server::with(Config::default())
    }

    pub(crate) fn with(config: Config) -> Server {
        let folder = tempfile::tempdir().unwrap();
        Server::on(folder, config)
    }

    pub(crate) fn on(folder: TempDir, config: Config) -> Server {
        let app = App::new(open(folder.path()), config).unwrap();
        Server { router: router(&app), folder, app }
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).expect("answers are text");
        Answer { status: parts.status, headers: parts.headers, text }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.with_body("POST", path, body).await
    }

    pub(crate) async fn with_body(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.send(json_request(method, path, body)).await
    }

    /// Posts what has to succeed.
    pub(crate) async fn ok(&self, path: &str, body: &Value) -> Value {
        self.post(path, body).await.ok()
    }

    /// Stores texts and returns their ids.
    pub(crate) async fn remember(&self, namespace: &str, texts: &[&str]) -> Vec<String> {
        let body = serde_json::json!({ "namespace": namespace, "content": texts });
        let stored = self.ok("/v1/memories", &body).await;
        stored["memories"].as_array().unwrap().iter().map(|one| text(one, "id")).collect()
    }

    /// Contents that a recall finds, best first.
    pub(crate) async fn recalled(&self, body: &Value) -> Vec<String> {
        contents(&self.ok("/v1/recall", body).await)
    }

    /// After whatever happened, the memory goes on working.
    pub(crate) async fn still_works(&self) {
        self.remember("default", &["The last word is harbour."]).await;
        let found = self.recalled(&serde_json::json!({ "query": "last word harbour", "top_k": 1 })).await;
        assert_eq!(found, ["The last word is harbour."]);
    }
}

pub(crate) fn open(folder: &std::path::Path) -> Earmark {
    let settings = Settings { learn_at_once: false, ..Default::default() };
    Earmark::open(folder, settings, || Ok(Arc::new(Words))).unwrap()
}

pub(crate) fn json_request(method: &str, path: &str, body: &Value) -> Request<Body> {
    let builder = Request::builder().method(method).uri(path).header("content-type", "application/json");
    builder.body(Body::from(body.to_string())).unwrap()
}

pub(crate) fn contents(recall: &Value) -> Vec<String> {
    recall["results"].as_array().unwrap().iter().map(|result| text(result, "content")).collect()
}

pub(crate) fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_else(|| panic!("no text `{key}` in {value}")).to_owned()
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }

    pub(crate) fn ok(self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{}", self.text);
        self.json()
    }

    /// A problem of this status whose detail holds `part`.
    pub(crate) fn problem(&self, status: u16, part: &str) {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        let problem = self.json();
        assert_eq!(problem["status"], status);
        assert!(text(&problem, "detail").contains(part), "no `{part}` in {}", self.text);
    }
}
