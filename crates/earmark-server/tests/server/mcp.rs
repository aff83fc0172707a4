//! The tools over HTTP, as clients call them.

use axum::http::HeaderValue;
use earmark::critic::LlmOptions;
use earmark_server::{Config, CriticConfig};
use serde_json::{Value, json};

use crate::{
    endpoint::Endpoint,
    support::{Server, json_request, text},
};

async fn rpc(server: &Server, path: &str, method: &str, params: Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let mut request = json_request("POST", path, &body);
    request.headers_mut().insert("accept", HeaderValue::from_static("application/json, text/event-stream"));
    request.headers_mut().insert("host", HeaderValue::from_static("localhost"));
    let answer = server.send(request).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

async fn call(server: &Server, tool: &str, arguments: Value) -> Value {
    let answer = rpc(server, "/mcp/default", "tools/call", json!({"name": tool, "arguments": arguments})).await;
    answer["result"].clone()
}

/// The structured answer of a call that has to succeed.
async fn good(server: &Server, tool: &str, arguments: Value) -> Value {
    let result = call(server, tool, arguments).await;
    assert_ne!(result["isError"], true, "{result}");
    assert!(!text(&result["content"][0], "text").is_empty());
    result["structuredContent"].clone()
}

/// The sentence of a call that has to fail.
async fn bad(server: &Server, tool: &str, arguments: Value) -> String {
    let result = call(server, tool, arguments).await;
    assert_eq!(result["isError"], true, "{result}");
    text(&result["content"][0], "text")
}

#[tokio::test]
async fn a_client_starts_and_lists_the_tools() {
    let server = Server::new();
    let client =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let hello = rpc(&server, "/mcp", "initialize", client).await;
    assert_eq!(hello["result"]["serverInfo"]["name"], "earmark");
    let names = async |server: &Server| -> Vec<String> {
        let listed = rpc(server, "/mcp", "tools/list", json!({})).await;
        listed["result"]["tools"].as_array().unwrap().iter().map(|tool| text(tool, "name")).collect()
    };
    assert_eq!(names(&server).await, ["remember", "recall", "feedback", "forget", "memory_status"]);
    let exploring = Server::with(Config { refine_tool: true, ..Config::default() });
    assert_eq!(names(&exploring).await.last().unwrap(), "refine");
}

#[tokio::test]
async fn the_loop_closes_with_recall_alone() {
    let server = Server::new();
    good(&server, "remember", json!({"content": "The spare key hangs behind the boiler.", "tags": ["home"]})).await;
    let recall = good(&server, "recall", json!({"query": "where is the spare key?"})).await;
    assert_eq!(recall["results"][0]["content"], "The spare key hangs behind the boiler.");
    let previous = json!({"recall_id": recall["recall_id"], "answer": "Behind the boiler [1]."});
    good(&server, "recall", json!({"query": "and the bins?", "previous": previous})).await;
    let status = good(&server, "memory_status", json!({})).await;
    assert_eq!(status["learning"]["labels"]["next_recall"]["useful"], 1);
    let id = &recall["results"][0]["id"];
    assert_eq!(good(&server, "forget", json!({"ids": [id]})).await["forgotten"], 1);
    let nothing = call(&server, "recall", json!({"query": "key"})).await;
    assert!(text(&nothing["content"][0], "text").contains("nothing found"));
}

#[tokio::test]
async fn arguments_as_clients_send_them() {
    let server = Server::new();
    good(&server, "remember", json!({"content": "The gate code is 4471.", "tags": ["home"]})).await;
    good(&server, "remember", json!({"content": "The bin day is Tuesday.", "tags": "[\"home\",\"bins\"]"})).await;
    good(&server, "remember", json!({"content": "The bus is at nine.", "tags": "bus"})).await;
    let stored = server.get("/v1/memories").await.ok();
    assert_eq!(stored["memories"][1]["tags"], json!(["home", "bins"]));
    assert_eq!(stored["memories"][2]["tags"], json!(["bus"]));
    let count = async |arguments: Value| good(&server, "recall", arguments).await["results"].as_array().unwrap().len();
    assert_eq!(count(json!({"query": "gate code", "top_k": "2"})).await, 2);
    assert_eq!(count(json!({"query": "gate code", "top_k": 2.0})).await, 2);
    let filter = "{\"tags\":{\"contains\":\"home\"}}";
    assert_eq!(count(json!({"query": "gate code", "filters": filter})).await, 2);
    assert_eq!(count(json!({"query": "gate code", "filters": null, "after": null, "session_id": null})).await, 3);
    assert!(bad(&server, "recall", json!({"query": "q", "top_k": 2.5})).await.contains("top_k"));
    assert!(bad(&server, "recall", json!({"query": "q", "after": ""})).await.contains("after"));
    assert!(bad(&server, "recall", json!({"query": "q", "user_id": ""})).await.contains("user_id"));
    let recall = good(&server, "recall", json!({"query": "gate code"})).await;
    let useful = format!("[\"{}\"]", text(&recall["results"][0], "id"));
    let report = good(&server, "feedback", json!({"recall_id": recall["recall_id"], "useful": useful})).await;
    assert_eq!(report["closed"], true);
}

#[tokio::test]
async fn failing_calls_say_why() {
    let server = Server::with(Config { refine_tool: true, ..Config::default() });
    for (tool, arguments, part) in [
        ("remember", json!({"content": " "}), "blank"),
        ("recall", json!({}), "query"),
        ("recall", json!({"query": "q", "namespace": "other"}), "namespace"),
        ("feedback", json!({"recall_id": "rc_none", "useful": ["m_1"]}), "rc_none"),
        ("feedback", json!({"useful": ["m_1"]}), "recall_id"),
        ("refine", json!({"recall_id": "rc_none", "not_useful": ["1"]}), "rc_none"),
        ("forget", json!({}), "restricts nothing"),
        ("memory_status", json!({"x": 1}), "`x`"),
    ] {
        let said = bad(&server, tool, arguments).await;
        assert!(said.contains(part), "{tool}: {said}");
    }
    let answer = rpc(&server, "/mcp", "tools/call", json!({"name": "delete_all", "arguments": {}})).await;
    assert!(text(&answer["error"], "message").contains("delete_all"));
}

#[tokio::test(flavor = "multi_thread")]
async fn where_there_is_a_critic_a_recall_may_explore() {
    let without = Server::new();
    assert!(
        bad(&without, "recall", json!({"query": "key", "explore": "on"})).await.contains("`explore` is no argument")
    );
    let endpoint = Endpoint::saying("It hangs there [1].").await;
    let options = LlmOptions { retries: 0, ..LlmOptions::new(&endpoint.base, "judge") };
    let server = Server::with(Config { critic: Some(CriticConfig::new(options)), ..Config::default() });
    let texts: Vec<String> = (0..12).map(|i| format!("key number {i} hangs behind door {i}")).collect();
    server.remember("default", &texts.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let recall = good(&server, "recall", json!({"query": "key", "explore": "on", "max_critic_calls": "2"})).await;
    assert_eq!((recall["critic_calls"].as_u64(), endpoint.asked().len()), (Some(2), 2));
    let said = bad(&server, "recall", json!({"query": "key", "explore": "maybe"})).await;
    assert!(said.contains("`explore`") && said.contains("`auto`"), "{said}");
    let most = bad(&server, "recall", json!({"query": "key", "explore": "on", "max_critic_calls": 51})).await;
    assert!(most.contains("max_critic_calls") && most.contains("50"), "{most}");
    good(&server, "recall", json!({"query": "key"})).await;
    assert_eq!(endpoint.asked().len(), 2, "nobody is asked unasked");
}

#[tokio::test]
async fn the_path_fixes_the_namespace() {
    let server = Server::new();
    server.remember("work", &["at work"]).await;
    server.remember("default", &["at home"]).await;
    let ask = json!({"name": "recall", "arguments": {"query": "where"}});
    let at_work = rpc(&server, "/mcp/work", "tools/call", ask.clone()).await;
    assert_eq!(at_work["result"]["structuredContent"]["results"][0]["content"], "at work");
    assert_eq!(at_work["result"]["structuredContent"]["results"].as_array().unwrap().len(), 1);
    let nowhere = rpc(&server, "/mcp/none", "tools/call", ask).await;
    assert_eq!(nowhere["result"]["isError"], true);
}
