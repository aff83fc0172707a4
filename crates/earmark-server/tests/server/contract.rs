//! Every route does what it says.

use axum::{body::Body, http::Request};
use serde_json::{Value, json};

use crate::support::{Server, contents, text};

#[tokio::test]
async fn memories_come_go_and_change() {
    let server = Server::new();
    let one = json!({"content": "The gate code is 4471.", "author": "Ana", "tags": ["home"], "metadata": {"n": 1},
        "occurred_at": "2027-01-31", "user_id": "u1"});
    let stored = server.ok("/v1/memories", &one).await;
    assert_eq!(stored["namespace"], "default");
    assert_eq!(stored["memories"][0]["created"], true);
    assert_eq!(server.ok("/v1/memories", &one).await["memories"][0]["created"], false, "sending again is safe");
    let id = text(&stored["memories"][0], "id");
    let path = format!("/v1/memories/{id}");
    let memory = server.get(&path).await.ok();
    assert_eq!(memory["occurred_at"], "2027-01-31T00:00:00Z");
    let edit = json!({"content": "The gate code is 9920.", "author": null});
    let changed = server.with_body("PATCH", &path, &edit).await.ok();
    assert_eq!(changed["author"], Value::Null);
    assert_eq!(changed["tags"], json!(["home"]), "what is not named stays");
    let found = server.ok("/v1/recall", &json!({"query": "code 9920", "top_k": 1})).await;
    assert_eq!(contents(&found), ["The gate code is 9920."]);
    assert!(found["results"][0]["scores"]["lexical"].as_f64().unwrap() > 0.0, "the words follow the text");
    server.with_body("PATCH", &path, &json!({})).await.problem(400, "nothing to change");
    server.with_body("PATCH", &path, &json!({"content": " "})).await.problem(400, "blank");
    assert_eq!(delete(&server, &path).await.ok()["forgotten"], 1);
    server.get(&path).await.problem(404, &id);
    delete(&server, &path).await.problem(404, &id);
}

async fn delete(server: &Server, path: &str) -> crate::support::Answer {
    server.send(Request::delete(path).body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn many_and_messages_share_fields() {
    let server = Server::new();
    let many = json!({"memories": [{"content": "red", "user_id": "own"}, {"content": "blue"}], "user_id": "u1", "tags": ["t"]});
    server.ok("/v1/memories", &many).await;
    let chat = json!({"messages": [{"role": "user", "content": "green", "timestamp": 1798761600}], "session_id": "s1"});
    server.ok("/v1/memories", &chat).await;
    let all = server.get("/v1/memories").await.ok()["memories"].clone();
    assert_eq!(all[0]["user_id"], "own");
    assert_eq!(all[1]["user_id"], "u1");
    assert_eq!(all[1]["tags"], json!(["t"]));
    assert_eq!(all[2]["author"], "user");
    assert_eq!(all[2]["session_id"], "s1");
    let nothing = [json!({}), json!({"content": []}), json!({"content": "a", "messages": []})];
    for body in nothing {
        server.post("/v1/memories", &body).await.problem(400, "content");
    }
    server.post("/v1/memories", &json!({"content": ["good", " "]})).await.problem(400, "items[1].content");
    assert_eq!(server.get("/v1/memories").await.ok()["memories"].as_array().unwrap().len(), 3, "all or none");
}

#[tokio::test]
async fn lists_go_page_by_page_and_scopes_forget() {
    let server = Server::new();
    let texts: Vec<String> = (0..7).map(|i| format!("note {i}")).collect();
    server.ok("/v1/memories", &json!({"content": texts, "session_id": "s1"})).await;
    server.remember("default", &["kept"]).await;
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/v1/memories?session_id=s1&limit=3{cursor}")).await.ok();
        seen.extend(page["memories"].as_array().unwrap().iter().map(|m| text(m, "content")));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, texts);
    delete(&server, "/v1/memories").await.problem(400, "restricts nothing");
    delete(&server, "/v1/memories?session_id=").await.problem(400, "session_id");
    delete(&server, "/v1/memories?session=s1").await.problem(400, "session");
    delete(&server, "/v1/memories?limit=1&session_id=s1").await.problem(400, "limit");
    let filter = "/v1/memories?filters=%7B%22content%22%3A%22note%203%22%7D";
    assert_eq!(delete(&server, filter).await.ok()["forgotten"], 1);
    assert_eq!(delete(&server, "/v1/memories?session_id=s1").await.ok()["forgotten"], 6);
    assert_eq!(server.get("/v1/memories").await.ok()["memories"][0]["content"], "kept");
}

#[tokio::test]
async fn recalls_are_closed_refined_explained_and_listed() {
    let server = Server::new();
    server.remember("default", &["red apple tree", "green apple tree", "blue apple tree", "grey apple tree"]).await;
    let recall = server.ok("/v1/recall", &json!({"query": "apple tree", "top_k": 2})).await;
    let id = text(&recall, "recall_id");
    let next = server.ok(&format!("/v1/recalls/{id}/refine"), &json!({"not_useful": ["1", "2"]})).await;
    let (first, second) = (contents(&recall), contents(&next));
    assert!(second.len() == 2 && second.iter().all(|text| !first.contains(text)), "{first:?} {second:?}");
    server
        .post(&format!("/v1/recalls/{id}/feedback"), &json!({"useful": [1.5]}))
        .await
        .problem(400, "`useful[0]` cannot be used: expected an id or a number");
    let report = server.ok(&format!("/v1/recalls/{id}/feedback"), &json!({"answer": "It is [1]."})).await;
    assert_eq!(report["useful"], json!([next["results"][0]["id"]]));
    let again = server.ok(&format!("/v1/recalls/{id}/feedback"), &json!({"answer": "It is [1]."})).await;
    assert_eq!(again["repeated"], true);
    let other = server.post(&format!("/v1/recalls/{id}/feedback"), &json!({"useful": ["2"]})).await;
    other.problem(409, "closed once");
    assert_eq!(server.get(&format!("/v1/recalls/{id}")).await.ok()["state"], "closed");
    assert_eq!(server.get("/v1/recalls?state=open").await.ok()["recalls"], json!([]));
    assert_eq!(server.get("/v1/recalls").await.ok()["recalls"][0]["rounds"].as_array().unwrap().len(), 2);
    let numbered = server.ok("/v1/recall", &json!({"query": "apple tree"})).await;
    let labels = json!({"useful": [1], "not_useful": ["2"]});
    let report = server.ok(&format!("/v1/recalls/{}/feedback", text(&numbered, "recall_id")), &labels).await;
    assert_eq!(report["useful"], json!([numbered["results"][0]["id"]]));
    let explained = server.get(&format!("/v1/recalls/{id}/explain")).await.ok();
    assert_eq!(explained["query"], "apple tree");
    server.get("/v1/recalls/rc_none/explain").await.problem(404, "rc_none");
    server.post(&format!("/v1/recalls/{id}/feedback"), &json!({})).await.problem(400, "useful");
}

#[tokio::test]
async fn previous_closes_the_recall_before() {
    let server = Server::new();
    server.remember("default", &["red apple", "green pear"]).await;
    let first = server.ok("/v1/recall", &json!({"query": "apple"})).await;
    let previous = json!({"recall_id": first["recall_id"], "answer": "An apple [1]."});
    server.ok("/v1/recall", &json!({"query": "pear", "previous": previous})).await;
    let status = server.get("/v1/learning").await.ok();
    assert_eq!(status["labels"]["next_recall"]["useful"], 1);
    let wrong = json!({"query": "pear", "previous": {"recall_id": "rc_none", "used": ["1"]}});
    server.post("/v1/recall", &wrong).await.problem(404, "rc_none");
}

#[tokio::test]
async fn namespaces_are_made_listed_and_removed() {
    let server = Server::new();
    server.get("/v1/memories?namespace=work").await.problem(404, "work");
    server.ok("/v1/namespaces", &json!({"name": "a/../b ü"})).await;
    server.remember("work", &["at work"]).await;
    let names = server.get("/v1/namespaces").await.ok();
    assert_eq!(names["namespaces"], json!(["a/../b ü", "work"]));
    assert_eq!(server.get("/v1/namespaces/work").await.ok()["memories"], 1);
    assert_eq!(server.get("/v1/namespaces/a%2F..%2Fb%20%C3%BC").await.ok()["memories"], 0);
    let two = server.post("/v1/recall?namespace=work", &json!({"namespace": "other", "query": "q"})).await;
    two.problem(400, "namespace");
    assert_eq!(server.recalled(&json!({"namespace": "work", "query": "work"})).await, ["at work"]);
    assert_eq!(delete(&server, "/v1/namespaces/work").await.ok()["removed"], "work");
    delete(&server, "/v1/namespaces/work").await.problem(404, "work");
}

#[tokio::test]
async fn exports_are_imported() {
    let server = Server::new();
    server.remember("default", &["first apple", "second pear"]).await;
    let export = server.get("/v1/export").await;
    assert_eq!(export.headers["content-type"], "application/x-ndjson");
    let request = |namespace: &str, body: Vec<u8>| {
        Request::post(format!("/v1/import?namespace={namespace}")).body(Body::from(body)).unwrap()
    };
    let imported = server.send(request("copy", export.text.clone().into_bytes())).await.ok();
    assert_eq!(imported, json!({"created": 2, "existing": 0, "refused": []}));
    let again = server.send(request("copy", export.text.into_bytes())).await.ok();
    assert_eq!(again["existing"], 2);
    let utf16: Vec<u8> = "\u{feff}{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    server.send(request("copy", utf16)).await.problem(400, "UTF-16");
    server.get("/v1/export?namespace=none").await.problem(404, "none");
}

#[tokio::test]
async fn mem0_clients_find_their_shapes() {
    let server = Server::new();
    let add = json!({"messages": [{"role": "user", "content": "I like tea"}], "user_id": "u1", "infer": true});
    let added = server.ok("/memories", &add).await;
    assert_eq!(added["results"][0]["event"], "ADD");
    assert_eq!(added["results"][0]["memory"], "I like tea");
    assert_eq!(server.ok("/memories", &add).await["results"][0]["event"], "NONE");
    server.ok("/memories", &json!({"messages": "I like coffee", "user_id": "u2"})).await;
    let found = server.ok("/search", &json!({"query": "what do I like?", "user_id": "u1", "limit": 5})).await;
    let results = found["results"].as_array().unwrap();
    assert_eq!((results.len(), &results[0]["memory"]), (1, &json!("I like tea")));
    assert!(results[0]["score"].is_number());
    assert_eq!(server.get("/memories?user_id=u2").await.ok()["results"][0]["memory"], "I like coffee");
    let path = format!("/memories/{}", text(&added["results"][0], "id"));
    assert_eq!(delete(&server, &path).await.ok()["message"], "Memory deleted successfully!");
    server.post("/search", &json!({"query": "q", "treshold": 0.1})).await.problem(400, "treshold");
}

#[tokio::test]
async fn requests_of_the_mem0_package_are_answered() {
    let server = Server::new();
    let ping = server.get("/v1/ping/").await.ok();
    assert_eq!((text(&ping, "org_id"), text(&ping, "project_id")), ("earmark".to_owned(), "default".to_owned()));
    let talk = json!({"messages": [{"role": "user", "content": "The key is behind the boiler."},
        {"role": "assistant", "content": "Noted."}], "user_id": "ana", "metadata": {"topic": "home"}, "infer": false});
    let added = server.ok("/v3/memories/add/", &talk).await;
    let key = text(&added["results"][0], "id");
    let gate = json!({"messages": [{"role": "user", "content": "The gate code is 4471."}],
        "filters": {"AND": [{"user_id": "ben"}, {"app_id": "door"}]}, "timestamp": 1_798_761_600});
    server.ok("/v3/memories/add/", &gate).await;

    let search = |body: Value| {
        let server = &server;
        async move { server.ok("/v3/memories/search/", &body).await["results"].as_array().unwrap().clone() }
    };
    let found = search(json!({"query": "Where is the key?", "filters": {"user_id": "ana"}, "top_k": 1})).await;
    assert_eq!((found.len(), &found[0]["memory"]), (1, &json!("The key is behind the boiler.")));
    assert!((0.0..=1.0).contains(&found[0]["score"].as_f64().unwrap()));
    let either = json!({"OR": [{"user_id": "ana"}, {"app_id": "door"}]});
    assert_eq!(search(json!({"query": "code", "filters": either})).await.len(), 3);
    assert_eq!(search(json!({"query": "code", "filters": {"app_id": "*"}})).await[0]["user_id"], "ben");
    assert!(search(json!({"query": "code", "filters": {"user_id": "*"}, "threshold": 0.99})).await.is_empty());
    assert!(search(json!({"query": "code", "categories": ["none"]})).await.is_empty());

    let page = server.ok("/v3/memories/?page=2&page_size=1", &json!({"filters": {"user_id": "ana"}})).await;
    assert_eq!(
        (&page["count"], &page["results"][0]["memory"], &page["next"]),
        (&json!(2), &json!("Noted."), &json!(null))
    );
    assert!(text(&page, "previous").ends_with("page=1&page_size=1"));
    let since = json!({"filters": {}, "start_date": "2026-01-01", "end_date": "2026-01-02"});
    assert_eq!(server.ok("/v3/memories/", &since).await["count"], 0);

    let path = format!("/v1/memories/{key}/");
    assert_eq!(server.get(&path).await.ok()["metadata"]["topic"], "home");
    let edit = json!({"text": "The key is in the shed.", "metadata": {"topic": "garden"}});
    assert_eq!(server.with_body("PUT", &path, &edit).await.ok()["memory"], "The key is in the shed.");
    let history = server.get(&format!("{path}history/")).await.ok();
    assert_eq!((history.as_array().unwrap().len(), &history[0]["new_memory"]), (1, &json!("The key is in the shed.")));
    delete(&server, &path).await.ok();
    server.get(&path).await.problem(404, &key);
    delete(&server, "/v1/memories/").await.problem(400, "restricts nothing");
    delete(&server, "/v1/memories/?user_id=ana").await.ok();
    let left = server.ok("/v3/memories/", &json!({})).await;
    assert_eq!((&left["count"], &left["results"][0]["app_id"]), (&json!(1), &json!("door")));
}

#[tokio::test]
async fn the_mem0_package_changes_and_deletes_several() {
    let server = Server::new();
    let ids = server.remember("default", &["red", "green", "blue"]).await;
    let named = |ids: &[&String]| -> Value { ids.iter().map(|id| json!({"memory_id": id})).collect() };
    let texts = async || {
        let left = server.ok("/v3/memories/", &json!({})).await;
        left["results"].as_array().unwrap().iter().map(|one| text(one, "memory")).collect::<Vec<_>>()
    };
    let batch =
        async |method, memories: Value| server.with_body(method, "/v1/batch/", &json!({ "memories": memories })).await;
    let (update, remove) = (|memories| batch("PUT", memories), |memories| batch("DELETE", memories));
    let edit = |id: &str, text: &str| json!({"memory_id": id, "text": text});
    let done = update(json!([edit(&ids[0], "red wine"), {"memory_id": ids[1], "metadata": {"n": 1}}])).await.ok();
    assert_eq!(done["message"], "Successfully updated 2 memories");
    assert_eq!(texts().await, ["red wine", "green", "blue"]);
    assert_eq!(server.get(&format!("/v1/memories/{}/", ids[1])).await.ok()["metadata"]["n"], 1);
    update(json!([edit(&ids[0], "gone"), edit("m_none", "x")])).await.problem(404, "m_none");
    update(json!([edit(&ids[0], "gone"), {"memory_id": ids[1]}])).await.problem(400, "memories[1].text");
    update(json!([])).await.problem(400, "between 1 and 1000");
    assert_eq!(texts().await[0], "red wine", "all or none, as far as it can be told before");
    let stopped = update(json!([edit(&ids[0], "white wine"), edit(&ids[1], " "), edit(&ids[2], "never")])).await;
    stopped.problem(400, "1 before it were changed");
    assert_eq!(texts().await, ["white wine", "green", "blue"]);
    remove(named(&[&ids[0], &"m_none".to_owned()])).await.problem(404, "m_none");
    assert_eq!(texts().await.len(), 3);
    assert_eq!(remove(named(&[&ids[0], &ids[2]])).await.ok()["message"], "Successfully deleted 2 memories");
    assert_eq!(texts().await, ["green"]);
}

#[tokio::test]
async fn the_mem0_package_sees_who_has_memories() {
    let server = Server::new();
    for body in [
        json!({"messages": "I like tea", "user_id": "ana", "run_id": "r/1"}),
        json!({"messages": "I like milk", "user_id": "ana"}),
        json!({"messages": "It rang", "app_id": "door", "agent_id": "bell"}),
        json!({"messages": "Nobody said this"}),
    ] {
        server.ok("/v3/memories/add/", &body).await;
    }
    let entities = async || {
        let found = server.get("/v1/entities/").await.ok();
        let results = found["results"].as_array().unwrap().clone();
        assert_eq!(found["count"], results.len());
        results.iter().map(|one| format!("{} {} {}", one["type"], one["name"], one["total_memories"])).collect()
    };
    let everybody: Vec<String> = entities().await;
    let expected = ["agent bell 1", "app door 1", "run r/1 1", "user ana 2"];
    assert_eq!(everybody.iter().map(|one| one.replace('"', "")).collect::<Vec<_>>(), expected);
    delete(&server, "/v2/entities/run/r%2F1/").await.ok();
    delete(&server, "/v2/entities/user/nobody/").await.ok();
    delete(&server, "/v2/entities/team/ana/").await.problem(400, "user, agent, app, run");
    assert_eq!(server.get("/v1/memories").await.ok()["memories"].as_array().unwrap().len(), 3);
    delete(&server, "/v2/entities/app/door/").await.ok();
    let left: Vec<String> = entities().await;
    assert_eq!(left, ["\"user\" \"ana\" 1"]);
}

#[tokio::test]
async fn an_opinion_of_the_mem0_package_is_about_the_newest_search_that_showed_it() {
    let server = Server::new();
    let ids = server.remember("default", &["red apple", "green apple", "blue sky"]).await;
    let search = async |query: &str| {
        let found = server.ok("/v3/memories/search/", &json!({"query": query, "top_k": 2})).await;
        text(&found["results"][0], "recall_id")
    };
    let say = |id: &str, what: Value| {
        let body = json!({"memory_id": id, "feedback": what, "feedback_reason": null});
        let server = &server;
        async move { server.post("/v1/feedback/", &body).await }
    };
    say(&ids[0], json!("POSITIVE")).await.problem(409, "search for something first");
    let (first, newest) = (search("red apple").await, search("green apple").await);
    assert_eq!(say(&ids[0], json!("POSITIVE")).await.ok()["recall_id"], json!(newest));
    assert_eq!(say(&ids[0], json!("POSITIVE")).await.ok()["recall_id"], json!(newest), "again is no harm");
    say(&ids[1], json!("NEGATIVE")).await.problem(409, "/v1/recalls/ID/feedback");
    let round = async |id: &str| server.get(&format!("/v1/recalls/{id}")).await.ok()["rounds"][0].clone();
    assert_eq!(round(&newest).await["useful"], json!([ids[0]]));
    assert_eq!(round(&newest).await["not_useful"], json!([]), "silence about the other says nothing");
    assert_eq!(round(&first).await["useful"], json!([]));
    let third = search("apple").await;
    say(&ids[1], json!("VERY_NEGATIVE")).await.ok();
    assert_eq!(round(&third).await["not_useful"], json!([ids[1]]));
    say("m_none", json!("POSITIVE")).await.problem(404, "m_none");
    say(&ids[0], json!(null)).await.problem(400, "not taken back");
    say(&ids[0], json!("SO_SO")).await.problem(400, "VERY_NEGATIVE");
}

#[tokio::test]
async fn what_mem0_programs_may_not_mean_is_refused() {
    let server = Server::new();
    for (path, body, named) in [
        ("/v3/memories/add/", json!({"messages": "x", "expiration_date": "2027-01-01"}), "do not expire"),
        ("/v3/memories/add/", json!({"messages": "x", "usr_id": "ana"}), "usr_id"),
        ("/v3/memories/add/", json!({"messages": "x", "filters": {"topic": "home"}}), "topic"),
        ("/v3/memories/add/", json!({"messages": "x", "user_id": ""}), "user_id"),
        ("/v3/memories/add/", json!({"messages": "x", "filters": {"AND": [{"user_id": 7}]}}), "user_id"),
        ("/v3/memories/add/", json!({"messages": []}), "no text"),
        ("/v3/memories/search/", json!({"query": "x", "filters": {"user_id": {"like": "a"}}}), "like"),
        ("/v3/memories/?page=0", json!({}), "page"),
        ("/v3/memories/?page=1&page_size=100000", json!({}), "page_size"),
    ] {
        server.post(path, &body).await.problem(400, named);
    }
    let id = server.remember("default", &["x"]).await.remove(0);
    server
        .with_body("PUT", &format!("/v1/memories/{id}/"), &json!({"expiration_date": null}))
        .await
        .problem(400, "text");
}

#[tokio::test]
async fn the_server_tells_about_itself() {
    let server = Server::new();
    assert_eq!(server.get("/healthz").await.ok()["status"], "ok");
    assert_eq!(server.get("/readyz").await.ok()["status"], "ready");
    let document = server.get("/openapi.json").await.ok();
    assert!(text(&document, "openapi").starts_with("3.1"));
    let page = server.get("/docs").await;
    assert!(page.text.contains("/v1/recalls/{id}/explain") && !page.text.contains("<script"));
    assert!(page.headers["content-security-policy"].to_str().unwrap().contains("default-src 'none'"));
    server.remember("secret-name", &["secret text"]).await;
    let metrics = server.get("/metrics").await.text;
    assert!(metrics.contains("earmark_memories_created_total 1"), "{metrics}");
    assert!(!metrics.contains("secret"));
    server.get("/v1/nothing").await.problem(404, "/docs");
    server.get("/v1/recall").await.problem(405, "method");
}

#[tokio::test]
async fn requests_have_ids() {
    let server = Server::new();
    let ask = |id: &str| Request::get("/healthz").header("x-request-id", id).body(Body::empty()).unwrap();
    assert_eq!(server.send(ask("my-id.1")).await.headers["x-request-id"], "my-id.1");
    let replaced = server.send(ask("a b")).await.headers["x-request-id"].clone();
    assert!(replaced != "a b" && !replaced.is_empty());
}
