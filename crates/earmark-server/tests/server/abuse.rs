//! What nobody should send, and what happens then: a clear refusal, and the server goes on.

use axum::{body::Body, http::Request};
use earmark_server::Config;
use serde_json::{Value, json};

use crate::support::{Server, json_request};

fn raw(path: &str, content_type: &str, body: impl Into<Body>) -> Request<Body> {
    Request::post(path).header("content-type", content_type).body(body.into()).unwrap()
}

#[tokio::test]
async fn huge_bodies_are_refused_before_they_are_read() {
    let server = Server::new();
    let chunk = axum::body::Bytes::from(vec![b'x'; 1 << 20]);
    for path in ["/v1/memories", "/v1/import", "/v1/recall", "/mcp/default"] {
        // 100 MB in pieces, so that no content-length warns of it.
        let pieces = tokio_stream::iter((0..100).map({
            let chunk = chunk.clone();
            move |_| Ok::<_, std::io::Error>(chunk.clone())
        }));
        let request = Request::post(path)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("host", "localhost")
            .body(Body::from_stream(pieces))
            .unwrap();
        assert_eq!(server.send(request).await.status, 413, "{path}");
    }
    let declared =
        Request::post("/v1/memories").header("content-length", "104857600").header("content-type", "application/json");
    server.send(declared.body(Body::empty()).unwrap()).await.problem(413, "parts");
    server.still_works().await;
}

#[tokio::test]
async fn bodies_that_are_no_json() {
    let server = Server::new();
    let deep = format!("{{\"query\":\"q\",\"filters\":{}1{}}}", "{\"NOT\":".repeat(100_000), "}".repeat(100_000));
    let bodies: [(&[u8], &str); 7] = [
        (b"", "empty"),
        (b"{", "JSON"),
        (b" [\"default\",\"q\"]", "object"),
        (b"{\"query\":\"a\"} x", "one JSON value"),
        (b"{\"query\":\"\xff\xfe\"}", "JSON"),
        (b"{\"query\":\"\\ud800\"}", "JSON"),
        (deep.as_bytes(), "recursion"),
    ];
    for (body, part) in bodies {
        server.send(raw("/v1/recall", "application/json", body.to_vec())).await.problem(400, part);
    }
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        server.send(raw("/v1/recall", content_type, "{\"query\":\"q\"}")).await.problem(415, "application/json");
        server.send(raw("/v1/learning/reset", content_type, "{}")).await.problem(415, "application/json");
        server.send(raw("/v1/import", content_type, "{}")).await.problem(415, "application/");
    }
    server.still_works().await;
}

#[tokio::test]
async fn paths_and_headers_carry_nothing_in() {
    let server = Server::new();
    server.remember("default", &["only one"]).await;
    let paths = [
        "/v1/memories/..%2F..%2F..%2Fetc%2Fpasswd",
        "/v1/memories/%00",
        "/v1/recalls/%2e%2e/explain",
        "/v1/memories/' OR 1=1 --".replace(' ', "%20").leak(),
    ];
    for path in paths {
        assert_eq!(server.get(path).await.status, 404, "{path}");
    }
    server.get("/v1/memories/%ff").await.problem(400, "path");
    for namespace in ["..", "..%2F..", "%2Fetc", ".", "a%00b"] {
        let path = format!("/v1/memories?namespace={namespace}");
        server.ok(&path, &json!({"content": "x"})).await;
    }
    let outside: Vec<_> = std::fs::read_dir(server.folder.path()).unwrap().flatten().map(|e| e.file_name()).collect();
    assert!(outside.iter().all(|name| name == "namespaces"), "{outside:?}");
    let long = "n".repeat(129);
    server.post("/v1/memories", &json!({"namespace": long, "content": "x"})).await.problem(400, "namespace");
    server.post("/v1/memories", &json!({"namespace": "", "content": "x"})).await.problem(400, "namespace");
    let injected = Request::get("/healthz").header("x-request-id", "a;b=\"c\"").body(Body::empty()).unwrap();
    assert_ne!(server.send(injected).await.headers["x-request-id"], "a;b=\"c\"");
    server.still_works().await;
}

#[tokio::test]
async fn pages_of_other_sites_reach_nothing() {
    let server = Server::new();
    server.remember("default", &["private"]).await;
    let paths = [
        "/v1/recall",
        "/v1/memories",
        "/v1/export",
        "/mcp",
        "/mcp/default",
        "/",
        "/ui/ask",
        "/ui/memories",
        "/docs",
        "/healthz",
        "/metrics",
        "/nothing",
    ];
    for path in paths {
        for (name, value) in [("host", "evil.example"), ("origin", "http://evil.example"), ("origin", "null")] {
            let mut request = json_request("POST", path, &json!({"content": "x", "query": "private"}));
            request.headers_mut().insert(name, value.parse().unwrap());
            let answer = server.send(request).await;
            answer.problem(403, "");
            assert!(!answer.text.contains("private"));
        }
        let preflight = Request::options(path).header("origin", "http://evil.example").header("host", "localhost:3277");
        let answer = server.send(preflight.body(Body::empty()).unwrap()).await;
        assert!(answer.headers.get("access-control-allow-origin").is_none());
    }
    for host in ["localhost:3277", "127.0.0.1:3277", "[::1]:3277"] {
        let request = Request::get("/v1/export").header("host", host).header("origin", format!("http://{host}"));
        assert_eq!(server.send(request.body(Body::empty()).unwrap()).await.status, 200, "{host}");
    }
    let all = server.get("/v1/memories").await.ok();
    assert_eq!(all["memories"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn numbers_beyond_reason_are_refused_quickly() {
    let server = Server::new();
    server.remember("default", &["one"]).await;
    let ask = |top_k: Value| json!({"query": "q", "top_k": top_k});
    for (top_k, part) in [
        (json!("ten"), "top_k"),
        (json!(-1), "top_k"),
        (json!(0), "top_k"),
        (json!(1_000_000_000), "top_k"),
        (json!(1e300), "top_k"),
    ] {
        server.post("/v1/recall", &ask(top_k)).await.problem(400, part);
    }
    server.post("/v1/recall", &json!({"query": "q", "query_vector": [0.5]})).await.problem(409, "dimensions");
    server.get("/v1/memories?limit=100000").await.problem(400, "limit");
    server.get("/v1/memories?cursor=x").await.problem(400, "cursor");
    server.post("/v1/recall", &json!({"query": "x".repeat(2 << 20)})).await.problem(400, "query");
    server.still_works().await;
}

#[tokio::test]
async fn too_many_calls_wait_and_are_refused_in_the_end() {
    let config = Config { concurrency: 1, timeout: std::time::Duration::from_millis(500), ..Config::default() };
    let server = Server::with(config);
    let app = server.app.clone();
    let slow = tokio::spawn(async move {
        app.run(|_| {
            std::thread::sleep(std::time::Duration::from_millis(2000));
            Ok(())
        })
        .await
    });
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    let busy = server.get("/v1/namespaces").await;
    busy.problem(503, "try again");
    assert_eq!(busy.headers["retry-after"], "1");
    assert_eq!(slow.await.unwrap().unwrap_err().status, 504, "a call that takes too long is told so");
    tokio::time::sleep(std::time::Duration::from_millis(2000)).await;
    server.get("/v1/namespaces").await.ok();
}
