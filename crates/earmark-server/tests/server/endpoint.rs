//! A model endpoint on loopback that gives prepared answers and keeps what it was asked.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, Uri},
    response::Response,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What the endpoint was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Asked {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

type Answer = dyn Fn(&Asked) -> Response + Send + Sync;

#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) base: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    answer: Arc<Answer>,
}

impl Endpoint {
    pub(crate) async fn serve(answer: impl Fn(&Asked) -> Response + Send + Sync + 'static) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let endpoint = Endpoint { base, asked: Arc::default(), answer: Arc::new(answer) };
        let router = Router::new().fallback(reply).layer(DefaultBodyLimit::disable()).with_state(endpoint.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        endpoint
    }

    /// One that says the same to everybody.
    pub(crate) async fn saying(text: &'static str) -> Endpoint {
        Endpoint::serve(move |_| said(text)).await
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// An answer of a chat endpoint.
pub(crate) fn said(text: &str) -> Response {
    let body = json!({ "choices": [{ "index": 0, "message": { "role": "assistant", "content": text } }] });
    Response::builder().header("content-type", "application/json").body(Body::from(body.to_string())).unwrap()
}

async fn reply(State(endpoint): State<Endpoint>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let asked = Asked { path: uri.to_string(), headers, body };
    endpoint.asked.lock().unwrap().push(asked.clone());
    (endpoint.answer)(&asked)
}
