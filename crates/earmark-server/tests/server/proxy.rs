//! The proxy: what the model gets, what the client gets, and what the memory keeps.

use std::time::Duration;

use axum::{
    Router,
    body::{Body, Bytes},
    http::{Request, StatusCode},
    response::Response,
};
use earmark::{Namespace, NewMemory, Scope, store::RecallState};
use earmark_server::{Config, Proxy, ProxyConfig, Remember, proxy_router};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::{
    endpoint::{Endpoint, said},
    support::Server,
};

struct Front {
    server: Server,
    proxy: Proxy,
    router: Router,
    endpoint: Endpoint,
}

impl Front {
    async fn of(endpoint: Endpoint) -> Front {
        Front::before(endpoint, Server::new())
    }

    fn before(endpoint: Endpoint, server: Server) -> Front {
        Front::remembering(endpoint, server, Remember::Both)
    }

    fn remembering(endpoint: Endpoint, server: Server, remember: Remember) -> Front {
        let upstream = ProxyConfig {
            upstream: format!("{}/v1", endpoint.base),
            namespace: "default".to_owned(),
            top_k: None,
            max_tokens: None,
            remember,
        };
        let proxy = Proxy::new(server.app.clone(), upstream).unwrap();
        Front { router: proxy_router(&proxy), server, proxy, endpoint }
    }

    async fn send(&self, request: Request<Body>) -> (StatusCode, Bytes) {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        self.proxy.settle().await;
        (status, body)
    }

    async fn chat(&self, body: &Value) -> (StatusCode, Bytes) {
        self.send(chat(body)).await
    }

    fn memory(&self, namespace: &str) -> std::sync::Arc<Namespace> {
        self.server.app.earmark().namespace(namespace).unwrap()
    }

    fn remember(&self, texts: &[&str]) {
        let items: Vec<NewMemory> = texts.iter().map(|text| NewMemory::new(*text)).collect();
        self.memory("default").remember(&items).unwrap();
    }

    fn contents(&self, namespace: &str) -> Vec<String> {
        let all = self.memory(namespace).list(&Scope::default(), 100).unwrap();
        all.into_iter().map(|memory| memory.content).collect()
    }

    /// The messages of the last call.
    fn sent(&self) -> Vec<Value> {
        self.endpoint.asked().last().unwrap().json()["messages"].as_array().unwrap().clone()
    }
}

fn chat(body: &Value) -> Request<Body> {
    let builder = Request::post("/v1/chat/completions").header("host", "localhost:3278");
    builder.header("content-type", "application/json").body(Body::from(body.to_string())).unwrap()
}

fn question(text: &str) -> Value {
    json!({ "model": "m", "messages": [{ "role": "user", "content": text }] })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_gets_its_context_and_the_answer_closes_the_recall() {
    let front = Front::of(Endpoint::saying("Behind the boiler [1].").await).await;
    front.remember(&["The key is behind the boiler.", "The gate is green."]);
    let (status, body) = front.chat(&question("Where is the key?")).await;
    assert_eq!(
        (status, body),
        (StatusCode::OK, said("Behind the boiler [1].").into_body().collect().await.unwrap().to_bytes())
    );
    let sent = front.sent();
    assert_eq!((sent.len(), &sent[0]["role"], &sent[1]["content"]), (2, &json!("system"), &json!("Where is the key?")));
    assert!(sent[0]["content"].as_str().unwrap().contains("[1] The key is behind the boiler."));
    let memory = front.memory("default");
    let closed = memory.recalls(Some(RecallState::Closed), 9).unwrap();
    assert_eq!((closed.len(), closed[0].rounds[0].useful.len(), closed[0].rounds[0].not_useful.len()), (1, 1, 1));
    assert_eq!(closed[0].rounds[0].sources, ["answer"]);
    let kept = front.contents("default");
    assert_eq!(kept.len(), 2, "a question, and an answer that repeats a memory, tell nothing: {kept:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_event_streams_pass_byte_by_byte_and_are_read() {
    const STREAM: &str = ": warming up\n\ndata:{\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\r\n\r\n\
        data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Behind the boiler \"}}]}\n\n\
        event: ping\ndata:\n\n\
        data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"🗝 beside Tom's old blue toolbox [1].\"},\"finish_reason\":\"stop\"}]}\n\n\
        data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":6,\"total_tokens\":15}}\n\n";
    for size in [1, STREAM.len()] {
        let endpoint = Endpoint::serve(move |_| {
            let pieces = STREAM.as_bytes().chunks(size).map(|piece| Ok::<_, std::io::Error>(Bytes::from_static(piece)));
            let body = Body::from_stream(tokio_stream::iter(pieces));
            Response::builder().header("content-type", "text/event-stream; charset=utf-8").body(body).unwrap()
        })
        .await;
        let front = Front::of(endpoint).await;
        front.remember(&["The key is behind the boiler."]);
        let call = json!({ "model": "m", "stream": true, "messages": question("Where is the key?")["messages"] });
        let (_, body) = front.chat(&call).await;
        assert_eq!(body, STREAM.as_bytes());
        assert_eq!(front.contents("default")[1..], ["Behind the boiler 🗝 beside Tom's old blue toolbox."]);
        assert_eq!(front.memory("default").learning().unwrap().experiences, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_passed_on_while_it_comes() {
    let endpoint = Endpoint::serve(|_| {
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            let _ = sender.send(Ok::<_, std::io::Error>(Bytes::from("data: {}\n\n"))).await;
            std::future::pending::<()>().await;
        });
        let body = Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(receiver));
        Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
    })
    .await;
    let front = Front::of(endpoint).await;
    front.remember(&["The key is behind the boiler."]);
    let response = front.router.clone().oneshot(chat(&question("Where is the key?"))).await.unwrap();
    let mut body = response.into_body();
    let first = tokio::time::timeout(Duration::from_secs(5), body.frame()).await.expect("it comes at once");
    assert_eq!(first.unwrap().unwrap().into_data().unwrap(), "data: {}\n\n");
    drop(body);
    front.proxy.settle().await;
    assert_eq!(front.contents("default").len(), 1, "an answer that broke off is not kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn null_content_parts_and_tool_calls_survive() {
    let front = Front::of(Endpoint::saying("In the cellar [1].").await).await;
    front.remember(&["The cellar is damp."]);
    let body = json!({ "model": "m", "temperature": 0.1, "messages": [
        { "role": "user", "content": [{ "type": "text", "text": "I moved the bikes to" },
            { "type": "image_url", "image_url": { "url": "data:image/png;base64,iVBORw0KGgo=" } },
            { "type": "text", "text": "the cellar." }] },
        { "role": "assistant", "content": null, "tool_calls": [{ "id": "c1", "type": "function",
            "function": { "name": "find", "arguments": "{\"q\":\"bikes\"}" } }] },
        { "role": "tool", "tool_call_id": "c1", "content": "2 found" },
        { "role": "user", "content": "Where are the bikes?" }] });
    front.chat(&body).await;
    let mut sent = front.endpoint.asked().last().unwrap().json();
    sent["messages"].as_array_mut().unwrap().remove(0);
    assert_eq!(sent.to_string(), body.to_string(), "only the context differs");
    let kept = front.contents("default");
    assert_eq!(kept[1..], ["I moved the bikes to\nthe cellar."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_of_a_tool_loop_are_one_recall() {
    let endpoint =
        Endpoint::serve(|asked| match asked.json()["messages"].as_array().unwrap().last().unwrap()["role"] {
            ref role if *role == "tool" => said("Green [1]."),
            _ => {
                let call = json!({ "choices": [{ "message": { "content": null, "tool_calls": [{ "id": "c1" }] } }] });
                Response::builder()
                    .header("content-type", "application/json")
                    .body(Body::from(call.to_string()))
                    .unwrap()
            }
        })
        .await;
    let front = Front::of(endpoint).await;
    front.remember(&["The gate is green."]);
    let mut body = question("What colour is the gate?");
    front.chat(&body).await;
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({ "role": "assistant", "content": null, "tool_calls": [{ "id": "c1" }] }));
    messages.push(json!({ "role": "tool", "tool_call_id": "c1", "content": "looked" }));
    front.chat(&body).await;
    let status = front.memory("default").learning().unwrap();
    assert_eq!((status.recalls, status.experiences), (1, 1));
    assert_eq!(front.contents("default").len(), 1, "nothing new was said");
}

#[tokio::test(flavor = "multi_thread")]
async fn users_and_namespaces_are_kept_apart() {
    let front = Front::of(Endpoint::saying("Noted. [NO_CITE]").await).await;
    let of = |user: &str, text: &str| json!({ "model": "m", "user": user, "messages": question(text)["messages"] });
    front.chat(&of("ana", "My gate code is 4471.")).await;
    front.chat(&of("ben", "What is the gate code?")).await;
    assert_eq!(front.sent().len(), 1, "nothing of ana's is shown to ben");
    let mut elsewhere = chat(&of("ana", "The gate is green. What is its code?"));
    elsewhere.headers_mut().insert("x-earmark-namespace", "other".parse().unwrap());
    elsewhere.headers_mut().insert("x-earmark-session", "s1".parse().unwrap());
    front.send(elsewhere).await;
    assert_eq!(front.sent().len(), 1, "nothing of another namespace");
    let kept = front.memory("other").list(&Scope::default(), 9).unwrap();
    assert_eq!((kept[0].user_id.as_deref(), kept[0].session_id.as_deref()), (Some("ana"), Some("s1")));
    front.chat(&of("ana", "What is the gate code?")).await;
    assert!(front.sent()[0]["content"].as_str().unwrap().contains("4471"));
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_are_remembered_once_with_their_time_and_only_if_they_tell_something() {
    let endpoint = Endpoint::saying("Then lock the shed at night, and leave a note for the gardener. [NO_CITE]").await;
    let front = Front::of(endpoint).await;
    let talk = json!({ "model": "m", "messages": [
        { "role": "user", "content": "Hello!" },
        { "role": "assistant", "content": "Hi, how can I help you today?" },
        { "role": "user", "content": "The bikes are in the shed.", "timestamp": "2027-02-14T08:00:00Z" },
        { "role": "assistant", "content": "Fine." },
        { "role": "user", "content": "My neighbour lost hers." },
    ] });
    front.chat(&talk).await;
    let kept = [
        "The bikes are in the shed.",
        "My neighbour lost hers.",
        "Then lock the shed at night, and leave a note for the gardener.",
    ];
    assert_eq!(front.contents("default"), kept);
    let all = front.memory("default").list(&Scope::default(), 9).unwrap();
    let at = all.iter().map(|memory| memory.occurred_at.unwrap()).collect::<Vec<_>>();
    assert_eq!(at[0].to_string(), "2027-02-14T08:00:00Z");
    assert!(at[1..].iter().all(|at| (at.as_second() - jiff::Timestamp::now().as_second()).abs() < 60));
    front.chat(&talk).await;
    // A proxy that was started anew knows of nothing but the store.
    let Front { server, endpoint, .. } = front;
    let again = Front::before(endpoint, Server::on(server.folder, Config::default()));
    again.chat(&talk).await;
    assert_eq!(again.contents("default"), kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn whose_turns_are_remembered_can_be_chosen() {
    for (remember, kept) in [
        (Remember::Both, &["I moved to Utrecht.", "A fine old town with canals, cellars and bicycles."][..]),
        (Remember::User, &["I moved to Utrecht."]),
        (Remember::None, &[]),
    ] {
        let endpoint = Endpoint::saying("A fine old town with canals, cellars and bicycles.").await;
        let front = Front::remembering(endpoint, Server::new(), remember);
        front.chat(&question("I moved to Utrecht.")).await;
        assert_eq!(front.contents("default"), kept);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_limit_cut_off_is_no_silence_and_is_not_remembered() {
    let endpoint = Endpoint::serve(|_| {
        let message = json!({ "role": "assistant", "content": "Behind [1] the old blue toolbox and the garden" });
        let body = json!({ "choices": [{ "finish_reason": "length", "index": 0, "message": message }] });
        Response::builder().header("content-type", "application/json").body(Body::from(body.to_string())).unwrap()
    })
    .await;
    let front = Front::of(endpoint).await;
    front.remember(&["The key is behind the boiler.", "The gate is green."]);
    front.chat(&question("Where is the key?")).await;
    let closed = front.memory("default").recalls(Some(RecallState::Closed), 9).unwrap();
    assert_eq!((closed.len(), closed[0].rounds[0].useful.len(), closed[0].rounds[0].not_useful.len()), (1, 1, 0));
    assert_eq!(front.contents("default").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_takes_no_context_is_asked_without_it() {
    for status in [400, 500] {
        let endpoint = Endpoint::serve(move |asked| {
            let too_much = asked.json()["messages"].as_array().unwrap().len() > 1;
            let refuse = Response::builder().status(status).body(Body::from("too long")).unwrap();
            if too_much { refuse } else { said("Somewhere in the house, I suppose, or with your neighbours.") }
        })
        .await;
        let front = Front::of(endpoint).await;
        front.remember(&["The key is behind the boiler."]);
        let (status, body) = front.chat(&question("Where is the key?")).await;
        assert!(status == StatusCode::OK && String::from_utf8_lossy(&body).contains("Somewhere"));
        assert_eq!(front.endpoint.asked()[1].json(), question("Where is the key?"), "as the client sent it");
        assert!(front.memory("default").recalls(Some(RecallState::Closed), 9).unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_else_passes_unchanged() {
    let endpoint = Endpoint::serve(|asked| {
        let status = if asked.path.contains("missing") { 404 } else { 200 };
        Response::builder().status(status).header("x-from", "upstream").body(Body::from("as it is")).unwrap()
    })
    .await;
    let front = Front::of(endpoint).await;
    let models = Request::get("/v1/models?x=1").header("host", "localhost").header("authorization", "Bearer up");
    let response = front.router.clone().oneshot(models.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!((response.status(), &response.headers()["x-from"]), (StatusCode::OK, &"upstream".parse().unwrap()));
    let asked = front.endpoint.asked().pop().unwrap();
    assert_eq!(
        (asked.path.as_str(), &asked.headers["authorization"]),
        ("/v1/models?x=1", &"Bearer up".parse().unwrap())
    );
    let missing = Request::post("/v1/missing").header("host", "localhost").body(Body::from("x")).unwrap();
    assert_eq!(front.send(missing).await, (StatusCode::NOT_FOUND, Bytes::from("as it is")));
    for odd in ["{", "[]", "{\"messages\":\"x\"}"] {
        let request = Request::post("/v1/chat/completions").header("host", "localhost").body(Body::from(odd)).unwrap();
        assert_eq!(front.send(request).await.0, StatusCode::OK);
        assert_eq!(front.endpoint.asked().pop().unwrap().body, odd, "the upstream refuses what it does not like");
    }
    assert!(front.contents("default").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn trouble_with_the_memory_does_not_stop_the_conversation() {
    let front = Front::of(Endpoint::saying("Still here [1].").await).await;
    front.remember(&["x"]);
    let huge = question(&"why ".repeat(600_000));
    assert_eq!(front.chat(&huge).await.0, StatusCode::OK, "too long a question to recall for");
    assert_eq!(front.sent().len(), 1);
    let endpoint = Endpoint::serve(|_| Response::builder().status(500).body(Body::from("broken")).unwrap()).await;
    let broken = Front::of(endpoint).await;
    broken.remember(&["x"]);
    assert_eq!(broken.chat(&question("x?")).await, (StatusCode::INTERNAL_SERVER_ERROR, Bytes::from("broken")));
    assert_eq!(broken.contents("default"), ["x"], "a turn without an answer is not kept");
    let upstream = ProxyConfig {
        upstream: "http://127.0.0.1:9".to_owned(),
        namespace: "default".to_owned(),
        top_k: None,
        max_tokens: None,
        remember: Remember::Both,
    };
    let nowhere = Front { router: proxy_router(&Proxy::new(broken.server.app.clone(), upstream).unwrap()), ..broken };
    let (status, body) = nowhere.chat(&question("x?")).await;
    assert!(status == StatusCode::BAD_GATEWAY && String::from_utf8_lossy(&body).contains("--upstream"), "{body:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_reach_neither_the_memory_nor_the_upstream() {
    let folder = tempfile::tempdir().unwrap();
    let keys = earmark_server::Keys::open(folder.path()).unwrap();
    let (key, _) = keys.create("", &["other".to_owned()], earmark_server::Access::Write).unwrap();
    let server = Server::on(folder, Config { require_key: true, ..Default::default() });
    let front = Front::before(Endpoint::saying("x").await, server);
    front.remember(&["secret"]);
    assert_eq!(front.chat(&question("secret?")).await.0, StatusCode::UNAUTHORIZED);
    let mut request = chat(&question("secret?"));
    request.headers_mut().insert("x-earmark-key", key.parse().unwrap());
    assert_eq!(front.send(request).await.0, StatusCode::FORBIDDEN, "a key opens its own namespaces");
    let mut request = chat(&question("secret?"));
    request.headers_mut().insert("origin", "http://evil.example".parse().unwrap());
    assert_eq!(front.send(request).await.0, StatusCode::FORBIDDEN);
    assert!(front.endpoint.asked().is_empty());
    let mut request = chat(&question("secret?"));
    request.headers_mut().insert("x-earmark-key", key.parse().unwrap());
    request.headers_mut().insert("x-earmark-namespace", "other".parse().unwrap());
    assert_eq!(front.send(request).await.0, StatusCode::OK);
    let asked = front.endpoint.asked().pop().unwrap();
    assert!(asked.headers.get("x-earmark-key").is_none() && !asked.json().to_string().contains("[1] secret"));
}
