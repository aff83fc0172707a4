//! A key reaches its namespaces and nothing else: every route, by every way that could name another.

use std::{collections::BTreeSet, net::SocketAddr};

use axum::{
    body::Body,
    http::{Method, Request, StatusCode},
};
use earmark_server::{Access, App, Config, document};
use serde_json::{Value, json};

use crate::support::{Answer, Server, open, text};

/// A route with what it needs; `ID` and `RECALL` stand for ids of the other namespace.
struct Route {
    method: Method,
    path: &'static str,
    body: Option<Value>,
    access: Access,
    /// What the answer is when the key's own namespace is asked for an id of the other.
    strange_id: Option<u16>,
}

fn route(method: Method, path: &'static str, body: Option<Value>, access: Access, strange_id: Option<u16>) -> Route {
    Route { method, path, body, access, strange_id }
}

/// Every route that needs a key.
fn routes() -> Vec<Route> {
    use Access::{Admin, Read, Write};
    let (get, post, delete) = (Method::GET, Method::POST, Method::DELETE);
    let labels = || Some(json!({"useful": ["MEMORY"]}));
    let not_found = Some(404);
    let changes = Some(json!({"memories": [{"memory_id": "MEMORY", "text": "x"}]}));
    let opinion = Some(json!({"memory_id": "MEMORY", "feedback": "POSITIVE"}));
    vec![
        route(post.clone(), "/v1/memories", Some(json!({"content": "x"})), Write, None),
        route(get.clone(), "/v1/memories", None, Read, None),
        route(delete.clone(), "/v1/memories?user_id=u", None, Write, None),
        route(get.clone(), "/v1/memories/MEMORY", None, Read, not_found),
        route(Method::PATCH, "/v1/memories/MEMORY", Some(json!({"content": "x"})), Write, not_found),
        route(delete.clone(), "/v1/memories/MEMORY", None, Write, not_found),
        route(post.clone(), "/v1/recall", Some(json!({"query": "treasure", "filters": {"id": "MEMORY"}})), Read, None),
        route(get.clone(), "/v1/recalls", None, Read, None),
        route(get.clone(), "/v1/recalls/RECALL", None, Read, not_found),
        route(post.clone(), "/v1/recalls/RECALL/feedback", labels(), Write, not_found),
        route(post.clone(), "/v1/recalls/RECALL/refine", labels(), Write, not_found),
        route(get.clone(), "/v1/recalls/RECALL/explain", None, Read, not_found),
        route(get.clone(), "/v1/learning", None, Read, None),
        route(post.clone(), "/v1/learning/freeze", None, Admin, None),
        route(post.clone(), "/v1/learning/unfreeze", None, Admin, None),
        route(post.clone(), "/v1/learning/rollback", Some(json!({"version": 0})), Admin, None),
        route(post.clone(), "/v1/learning/reset", None, Admin, None),
        route(post.clone(), "/v1/learning/train", None, Admin, None),
        route(get.clone(), "/v1/namespaces", None, Read, None),
        route(post.clone(), "/v1/namespaces", Some(json!({"name": "theirs"})), Admin, None),
        route(get.clone(), "/v1/namespaces/theirs", None, Read, None),
        route(delete.clone(), "/v1/namespaces/theirs", None, Admin, None),
        route(post.clone(), "/v1/import", Some(json!({"content": "x", "namespace": "theirs"})), Write, None),
        route(get.clone(), "/v1/export", None, Read, None),
        route(post.clone(), "/memories", Some(json!({"messages": "x"})), Write, None),
        route(get.clone(), "/memories", None, Read, None),
        route(post.clone(), "/search", Some(json!({"query": "treasure"})), Read, None),
        route(delete.clone(), "/memories?user_id=u", None, Write, None),
        route(get.clone(), "/memories/MEMORY", None, Read, not_found),
        route(Method::PUT, "/memories/MEMORY", Some(json!({"text": "x"})), Write, not_found),
        route(get.clone(), "/memories/MEMORY/history", None, Read, not_found),
        route(delete.clone(), "/memories/MEMORY", None, Write, not_found),
        // The paths of mem0's clients, which the document leaves out.
        route(get.clone(), "/v1/ping/", None, Read, None),
        route(post.clone(), "/v3/memories/add/", Some(json!({"messages": "x"})), Write, None),
        route(post.clone(), "/v3/memories/search/", Some(json!({"query": "treasure"})), Read, None),
        route(post.clone(), "/v3/memories/", Some(json!({"filters": {"id": "MEMORY"}})), Read, None),
        route(delete.clone(), "/v1/memories/?user_id=u", None, Write, None),
        route(get.clone(), "/v1/memories/MEMORY/", None, Read, not_found),
        route(Method::PUT, "/v1/memories/MEMORY/", Some(json!({"text": "x"})), Write, not_found),
        route(delete.clone(), "/v1/memories/MEMORY/", None, Write, not_found),
        route(get.clone(), "/v1/memories/MEMORY/history/", None, Read, not_found),
        route(Method::PUT, "/v1/batch/", changes, Write, not_found),
        route(delete.clone(), "/v1/batch/", Some(json!({"memories": [{"memory_id": "MEMORY"}]})), Write, not_found),
        route(get.clone(), "/v1/entities/", None, Read, None),
        route(delete, "/v2/entities/user/u/", None, Write, None),
        route(post, "/v1/feedback/", opinion, Write, not_found),
        route(get, "/metrics", None, Read, None),
    ]
}

/// Needs no key.
const OPEN: [&str; 2] = ["GET /healthz", "GET /readyz"];

#[test]
fn the_table_has_every_route() {
    let template = |path: &str| {
        let path = path.split('?').next().unwrap_or(path);
        path.replace("MEMORY", "{id}").replace("RECALL", "{id}").replace("theirs", "{name}")
    };
    let tested = routes().into_iter().map(|r| (r.method, template(r.path)));
    let documented = tested.filter(|(_, path)| !path.ends_with('/'));
    let mut tested: BTreeSet<String> = documented.map(|(method, path)| format!("{method} {path}")).collect();
    tested.extend(OPEN.map(str::to_owned));
    let document = serde_json::to_value(document()).unwrap();
    let operations = document["paths"].as_object().unwrap().iter().flat_map(|(path, item)| {
        item.as_object().unwrap().keys().map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    assert_eq!(tested, operations.collect::<BTreeSet<_>>());
}

/// A server that needs keys, with a treasure in the namespace `theirs`.
struct Vault {
    server: Server,
    memory: String,
    recall: String,
    mine: String,
    reader: String,
    master: String,
}

impl Vault {
    async fn new() -> Vault {
        let folder = tempfile::tempdir().unwrap();
        let keys = earmark_server::Keys::open(folder.path()).unwrap();
        let key = |namespace: &str, access| keys.create("", &[namespace.to_owned()], access).unwrap().0;
        let (mine, reader, master) = (key("mine", Access::Admin), key("mine", Access::Read), key("*", Access::Admin));
        let server = Server::on(folder, Config { require_key: true, ..Config::default() });
        let mut vault = Vault { server, memory: String::new(), recall: String::new(), mine, reader, master };
        let stored = vault.treasure("/v1/memories", &json!({"content": "The treasure lies under the old oak."})).await;
        vault.memory = text(&stored["memories"][0], "id");
        vault.recall = text(&vault.treasure("/v1/recall", &json!({"query": "treasure"})).await, "recall_id");
        vault.send(&vault.mine, Method::POST, "/v1/memories", Some(&json!({"content": "My own pebble."}))).await.ok();
        vault
    }

    async fn treasure(&self, path: &str, body: &Value) -> Value {
        let path = format!("{path}?namespace=theirs");
        self.send(&self.master, Method::POST, &path, Some(body)).await.ok()
    }

    async fn send(&self, key: &str, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let mut builder = Request::builder().method(method).uri(self.filled(path));
        if !key.is_empty() {
            builder = builder.header("authorization", format!("Bearer {key}"));
        }
        let body = body.map(|body| self.filled(&body.to_string()));
        if body.is_some() {
            builder = builder.header("content-type", "application/json");
        }
        self.server.send(builder.body(body.map_or_else(Body::empty, Body::from)).unwrap()).await
    }

    fn filled(&self, text: &str) -> String {
        text.replace("MEMORY", &self.memory).replace("RECALL", &self.recall)
    }

    /// The treasure is where it was, and nobody heard of it.
    async fn is_untouched(&self, answer: &Answer, what: &str) {
        assert!(!answer.text.contains("oak"), "{what} tells: {}", answer.text);
        let path = "/v1/memories/MEMORY?namespace=theirs";
        let kept = self.send(&self.master, Method::GET, path, None).await.ok();
        assert_eq!(kept["content"], "The treasure lies under the old oak.", "{what}");
        let recall = self.send(&self.master, Method::GET, "/v1/recalls/RECALL?namespace=theirs", None).await.ok();
        assert_eq!(recall["state"], "open", "{what}");
    }
}

#[tokio::test]
async fn nothing_without_a_key_or_with_a_wrong_one() {
    let vault = Vault::new().await;
    let wrong = [String::new(), "em_wrong".to_owned(), vault.mine[..20].to_owned(), format!("{}x", vault.mine)];
    for route in routes() {
        for key in &wrong {
            let answer = vault.send(key, route.method.clone(), route.path, route.body.as_ref()).await;
            answer.problem(401, "key");
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
        }
    }
    for path in ["/mcp", "/mcp/theirs", "/v1/nothing"] {
        vault.send("", Method::POST, path, Some(&json!({}))).await.problem(401, "key");
    }
    for path in ["/healthz", "/readyz", "/openapi.json", "/docs"] {
        assert_eq!(vault.send("", Method::GET, path, None).await.status, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn a_key_never_reaches_another_namespace() {
    let vault = Vault::new().await;
    for route in routes() {
        let what = format!("{} {}", route.method, route.path);
        let joint = if route.path.contains('?') { '&' } else { '?' };
        let takes_namespace = !route.path.starts_with("/v1/namespaces") && route.path != "/metrics";
        if takes_namespace {
            let path = format!("{}{joint}namespace=theirs", route.path);
            let answer = vault.send(&vault.mine, route.method.clone(), &path, route.body.as_ref()).await;
            answer.problem(403, "namespace");
            vault.is_untouched(&answer, &what).await;
        }
        if let Some(Value::Object(mut body)) = route.body.clone() {
            body.insert("namespace".to_owned(), json!("theirs"));
            let answer = vault.send(&vault.mine, route.method.clone(), route.path, Some(&body.into())).await;
            let refused = [StatusCode::FORBIDDEN, StatusCode::BAD_REQUEST].contains(&answer.status);
            // An import's lines have no namespace of their own: such a line is refused.
            let line = answer.status == 200 && answer.json()["created"] == 0;
            assert!(refused || line, "{what}: {}", answer.text);
            vault.is_untouched(&answer, &what).await;
        }
        let answer = vault.send(&vault.mine, route.method.clone(), route.path, route.body.as_ref()).await;
        if let Some(status) = route.strange_id {
            assert_eq!(answer.status.as_u16(), status, "{what}: {}", answer.text);
        }
        vault.is_untouched(&answer, &what).await;
    }
}

#[tokio::test]
async fn a_reader_changes_nothing() {
    let vault = Vault::new().await;
    for route in routes().into_iter().filter(|route| route.access > Access::Read) {
        if route.path.starts_with("/v1/namespaces") {
            continue;
        }
        vault.send(&vault.reader, route.method.clone(), route.path, route.body.as_ref()).await.problem(403, "access");
    }
    let closing = json!({"query": "pebble", "previous": {"recall_id": "rc_x", "used": []}});
    vault.send(&vault.reader, Method::POST, "/v1/recall", Some(&closing)).await.problem(403, "write");
    let found = vault.send(&vault.reader, Method::POST, "/v1/recall", Some(&json!({"query": "pebble"}))).await.ok();
    assert_eq!(found["namespace"], "mine", "the key's only namespace is the usual one");
    assert_eq!(found["results"][0]["content"], "My own pebble.");
}

#[tokio::test]
async fn refusals_do_not_tell_what_exists() {
    let vault = Vault::new().await;
    let ask = async |namespace: &str| {
        vault.send(&vault.mine, Method::GET, &format!("/v1/memories?namespace={namespace}"), None).await.text
    };
    assert_eq!(ask("theirs").await, ask("no-such-namespace").await);
    let names = vault.send(&vault.mine, Method::GET, "/v1/namespaces", None).await.ok();
    assert_eq!(names["namespaces"], json!(["mine"]));
}

#[tokio::test]
async fn keys_come_in_three_spellings_and_can_be_revoked() {
    let vault = Vault::new().await;
    for (name, value) in [
        ("authorization", format!("bearer {}", vault.mine)),
        ("authorization", format!("Token {}", vault.mine)),
        ("x-api-key", vault.mine.clone()),
    ] {
        let request = Request::get("/v1/memories").header(name, value).body(Body::empty()).unwrap();
        assert_eq!(vault.server.send(request).await.status, StatusCode::OK);
    }
    let keys = vault.server.app.keys();
    let id = keys.list().unwrap()[0].id.clone();
    keys.revoke(&id).unwrap();
    vault.send(&vault.mine, Method::GET, "/v1/memories", None).await.problem(401, "revoked");
}

#[test]
fn beyond_loopback_a_key_has_to_exist() {
    let folder = tempfile::tempdir().unwrap();
    let everywhere = Config { listen: SocketAddr::from(([0, 0, 0, 0], 3277)), ..Config::default() };
    let refused = App::new(open(folder.path()), everywhere.clone());
    let refused = refused.err().expect("no key, no server").to_string();
    assert!(refused.contains("earmark keys create"), "{refused}");
    earmark_server::Keys::open(folder.path()).unwrap().create("", &["*".to_owned()], Access::Read).unwrap();
    assert!(App::new(open(folder.path()), everywhere).is_ok());
}
