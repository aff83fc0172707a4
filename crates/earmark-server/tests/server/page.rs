//! The page: hostile content, what may change something, and what a person sees.

use axum::{body::Body, http::Request};
use earmark_server::{Access, Config, Keys};
use serde_json::json;

use crate::support::{Answer, Server, text};

const HOSTILE: &str = "\"><script>alert(1)</script><img src=x onerror=alert(2)>' key";

const PAGES: [&str; 7] =
    ["/", "/ui/ask", "/ui/recalls", "/ui/memories", "/ui/memories?q=key", "/ui/learning", "/ui/settings"];

/// Sends a form as this page's own browser would.
async fn submit(server: &Server, path: &str, fields: &[(&str, &str)]) -> Answer {
    server.send(form(path, fields).header("sec-fetch-site", "same-origin").body(body(fields)).unwrap()).await
}

fn form(path: &str, _: &[(&str, &str)]) -> axum::http::request::Builder {
    let builder = Request::post(path).header("host", "localhost:3277");
    builder.header("content-type", "application/x-www-form-urlencoded")
}

fn body(fields: &[(&str, &str)]) -> Body {
    let encode = |text: &str| -> String { text.bytes().map(|byte| format!("%{byte:02X}")).collect() };
    let pairs = fields.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value)));
    Body::from(pairs.collect::<Vec<_>>().join("&"))
}

/// Sends it as htmx does.
async fn part(server: &Server, path: &str, fields: &[(&str, &str)]) -> Answer {
    let request = form(path, fields).header("sec-fetch-site", "same-origin").header("hx-request", "true");
    server.send(request.body(body(fields)).unwrap()).await
}

fn location(answer: &Answer) -> &str {
    assert_eq!(answer.status, 303, "{}", answer.text);
    answer.headers["location"].to_str().unwrap()
}

/// The first recall's id in a page.
fn recall_id(page: &str) -> String {
    let at = page.find("rc_").unwrap_or_else(|| panic!("no recall in {page}"));
    page[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
}

#[tokio::test]
async fn hostile_content_is_text_on_every_page() {
    let server = Server::new();
    let names = json!({"namespace": HOSTILE, "content": HOSTILE, "author": HOSTILE, "tags": [HOSTILE],
        "user_id": HOSTILE, "session_id": HOSTILE, "metadata": {"k": HOSTILE}});
    let stored = server.ok("/v1/memories", &names).await;
    let memory = text(&stored["memories"][0], "id");
    let ask = json!({"namespace": HOSTILE, "query": HOSTILE});
    let recall = text(&server.ok("/v1/recall", &ask).await, "recall_id");
    let labels = json!({"namespace": HOSTILE, "useful": [memory]});
    server.ok(&format!("/v1/recalls/{recall}/feedback"), &labels).await;
    let open = text(&server.ok("/v1/recall", &ask).await, "recall_id");
    let keys = Keys::open(server.folder.path()).unwrap();
    keys.create(HOSTILE, &[HOSTILE.to_owned()], Access::Read).unwrap();
    let place: String = HOSTILE.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let single = [format!("/ui/recalls/{recall}"), format!("/ui/recalls/{open}"), format!("/ui/memories/{memory}")];
    for path in PAGES.iter().map(|path| (*path).to_owned()).chain(single) {
        let separator = if path.contains('?') { '&' } else { '?' };
        let answer = server.get(&format!("{path}{separator}namespace={place}")).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        check(&path, &answer);
        assert!(answer.text.contains("script"), "{path} shows the namespace at least");
    }
    let fields = [("namespace", HOSTILE), ("query", HOSTILE)];
    for answer in [submit(&server, "/ui/ask", &fields).await, part(&server, "/ui/ask", &fields).await] {
        assert!(answer.text.contains("alert(1)"));
        check("/ui/ask", &answer);
    }
    for path in ["/ui/memories?filters=", "/ui/recalls?state=", "/ui/recalls/", "/?namespace="] {
        let answer = server.get(&format!("{path}{place}")).await;
        assert!(answer.status.is_client_error() || path == "/?namespace=", "{path}");
        check(path, &answer);
    }
}

/// Nothing of the hostile text is markup, and the policy allows nothing inline.
fn check(path: &str, answer: &Answer) {
    for bad in ["<script>alert", "<img src=x", "\"><script", "onerror=alert(2)>"] {
        assert!(!answer.text.contains(bad), "{path} holds {bad}: {}", answer.text);
    }
    for inline in [" style=\"", " onclick=", "<style", "javascript:"] {
        assert!(!answer.text.contains(inline), "{path} has {inline}, which the policy would block");
    }
    let policy = answer.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert!(answer.headers["content-type"].to_str().unwrap().starts_with("text/html"), "{path}");
    assert_eq!(answer.headers["cache-control"], "no-store", "{path}");
}

#[tokio::test]
async fn looking_changes_nothing() {
    let server = Server::new();
    let memory = server.remember("default", &["the key hangs there", "another key"]).await.remove(0);
    let recall = text(&server.ok("/v1/recall", &json!({"query": "key"})).await, "recall_id");
    let state = async || {
        let mut seen = String::new();
        for path in ["/v1/memories", "/v1/recalls", "/v1/learning", "/v1/namespaces"] {
            seen += &server.get(path).await.text;
        }
        seen
    };
    let before = state().await;
    let posts = [
        "/ui/ask?query=key".to_owned(),
        format!("/ui/recalls/{recall}/feedback?label.{memory}=useful"),
        format!("/ui/recalls/{recall}/refine"),
        format!("/ui/memories/{memory}/forget"),
        format!("/ui/memories/{memory}?content=changed"),
        "/ui/memories?content=new&q=key".to_owned(),
        "/ui/learning/freeze".to_owned(),
        "/ui/learning/reset".to_owned(),
        "/ui/curve".to_owned(),
        format!("/ui/recalls/{recall}"),
    ];
    for path in PAGES.iter().map(|path| (*path).to_owned()).chain(posts) {
        server.get(&path).await;
        let head = Request::head(&path).body(Body::empty()).unwrap();
        server.send(head).await;
        assert_eq!(state().await, before, "GET {path}");
    }
}

#[tokio::test]
async fn only_the_page_itself_may_post() {
    let server = Server::new();
    let memory = server.remember("default", &["the key hangs there"]).await.remove(0);
    let path = format!("/ui/memories/{memory}/forget");
    for (name, value) in [
        ("x-nothing", "x"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "none"),
        ("origin", "http://evil.example"),
        ("origin", "null"),
    ] {
        let answer = server.send(form(&path, &[]).header(name, value).body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, 403, "{name}: {value}");
    }
    server.get(&format!("/v1/memories/{memory}")).await.ok();
    let by_origin = form(&path, &[]).header("origin", "http://localhost:3277").body(Body::empty()).unwrap();
    assert_eq!(location(&server.send(by_origin).await), "/ui/memories");
    server.get(&format!("/v1/memories/{memory}")).await.problem(404, "");
}

#[tokio::test]
async fn thumbs_are_feedback_that_is_learned_from() {
    let server = Server::new();
    let ids = server.remember("default", &["red key", "green key", "blue key", "grey key", "pink key"]).await;
    let slate = part(&server, "/ui/ask", &[("query", "key"), ("top_k", "2")]).await.text;
    assert!(!slate.contains("<html") && slate.contains("meaning") && slate.contains("Not these"), "{slate}");
    let id = recall_id(&slate);
    let shown: Vec<&String> = ids.iter().filter(|id| slate.contains(id.as_str())).collect();
    assert_eq!(shown.len(), 2);
    let refine = format!("/ui/recalls/{id}/refine");
    let fields = [("shown", shown[0].as_str()), ("shown", shown[1].as_str()), ("query", "key"), ("round", "1")];
    let others = part(&server, &refine, &fields).await.text;
    let third = ids.iter().find(|id| others.contains(id.as_str())).unwrap();
    assert!(!shown.contains(&third) && !others.contains(shown[0].as_str()) && others.contains("round 2"), "{others}");
    let feedback = format!("/ui/recalls/{id}/feedback");
    let nothing = part(&server, &feedback, &[("query", "key")]).await.text;
    assert!(nothing.contains("Nothing was labelled"), "{nothing}");
    let label = format!("label.{third}");
    let thanks = part(&server, &feedback, &[(&label, "useful"), ("query", "key")]).await.text;
    assert!(thanks.contains("1 useful, 0 not useful") && thanks.contains("Ask again"), "{thanks}");
    let logged = server.get(&format!("/v1/recalls/{id}")).await.ok();
    assert_eq!((&logged["state"], &logged["rounds"][1]["useful"]), (&json!("closed"), &json!([third])));
    assert_eq!(logged["rounds"][1]["sources"], json!(["explicit"]));
    let again = part(&server, &feedback, &[(&format!("label.{}", shown[0]), "useful")]).await;
    assert_eq!((again.status.as_u16(), again.text.contains("closed")), (409, true), "{}", again.text);
    let page = server.get(&format!("/ui/recalls/{id}")).await.text;
    assert!(page.contains("Round 2") && page.contains("explicit feedback") && page.contains("How they rank now"));
}

#[tokio::test]
async fn everything_works_without_scripts() {
    let server = Server::new();
    let written =
        [("content", "the key hangs there"), ("author", "Ana"), ("tags", "home, keys"), ("occurred_at", "2027-02-14")];
    let remembered = submit(&server, "/ui/memories", &written).await;
    assert!(server.get(location(&remembered)).await.text.contains("Remembered."));
    let list = server.get("/ui/memories").await.text;
    assert!(list.contains("the key hangs there") && list.contains("home, keys") && list.contains("2027-02-14"));
    let id: String =
        list[list.find("m_").unwrap()..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let edited = [
        ("content", "the key hangs here"),
        ("author", ""),
        ("kind", "semantic"),
        ("tags", "home"),
        ("occurred_at", ""),
    ];
    let saved = submit(&server, &format!("/ui/memories/{id}"), &edited).await;
    assert!(server.get(location(&saved)).await.text.contains("Saved."));
    let memory = server.get(&format!("/v1/memories/{id}")).await.ok();
    assert_eq!(
        (&memory["content"], &memory["author"], &memory["occurred_at"]),
        (&json!("the key hangs here"), &json!(null), &json!(null))
    );
    assert!(server.get("/ui/memories?q=nowhere").await.text.contains("No memory fits"));
    assert!(
        server
            .get("/ui/memories?filters=%7B%22tags%22%3A%7B%22contains%22%3A%22home%22%7D%7D")
            .await
            .text
            .contains("hangs here")
    );
    let page = submit(&server, "/ui/ask", &[("query", "key")]).await.text;
    assert!(page.contains("<html") && page.contains("the key hangs here"));
    let recall = recall_id(&page);
    let closed =
        submit(&server, &format!("/ui/recalls/{recall}/feedback"), &[(&format!("label.{id}"), "not_useful")]).await;
    assert!(server.get(location(&closed)).await.text.contains("not useful"));
    server.app.finish();
    assert!(server.get("/ui/learning").await.text.contains("in force"));
    for (verb, shown) in [("freeze", "Learn again"), ("unfreeze", "Freeze learning"), ("train", "in force")] {
        let answer = submit(&server, &format!("/ui/learning/{verb}"), &[]).await;
        assert!(server.get(location(&answer)).await.text.contains(shown), "{verb}");
    }
    submit(&server, "/ui/learning/rollback", &[("version", "0")]).await;
    assert!(server.get("/").await.text.contains("Learning is frozen"));
    assert_eq!(submit(&server, "/ui/learning/explode", &[]).await.status, 404);
    let refused = submit(&server, "/ui/memories", &[("content", "  ")]).await;
    assert!(
        refused.status == 400 && refused.text.contains("blank") && refused.text.contains("<html"),
        "{}",
        refused.text
    );
}

#[tokio::test]
async fn empty_pages_say_what_to_do() {
    let server = Server::new();
    for (path, said) in [
        ("/", "earmark remember"),
        ("/ui/ask", "Write a first memory"),
        ("/ui/recalls", "No recalls here"),
        ("/ui/memories", "No memories yet"),
        ("/ui/learning", "The first closed recall makes version 1"),
        ("/ui/settings", "earmark keys create"),
    ] {
        let page = server.get(path).await.text;
        assert!(page.contains(said), "{path}: {page}");
        assert!(page.contains("aria-current=\"page\"") && page.contains("lang=\"en\"") && page.contains("viewport"));
    }
    for file in ["page.css", "page.js", "htmx.min.js", "uplot.min.js", "uplot.min.css", "icon.svg", "LICENSE-uplot"] {
        assert_eq!(server.get(&format!("/ui/static/{file}")).await.status, 200, "{file}");
    }
    assert_eq!(server.get("/ui/static/..%2Fmod.rs").await.status, 404);
}

#[tokio::test]
async fn curves_follow_the_closed_recalls() {
    let server = Server::new();
    let ids = server.remember("default", &["red key", "green key", "blue key"]).await;
    for i in 0..6 {
        let recall = text(&server.ok("/v1/recall", &json!({"query": format!("key {i}")})).await, "recall_id");
        let labels =
            if i < 3 { json!({"not_useful": ids}) } else { json!({"useful": [ids[0]], "not_useful": [ids[1]]}) };
        server.ok(&format!("/v1/recalls/{recall}/feedback"), &labels).await;
    }
    let curves = server.get("/ui/curve").await.ok();
    assert_eq!(curves["hits"], json!([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [0.0, 0.0, 0.0, 0.25, 0.4, 0.5]]));
    let page = server.get("/").await.text;
    assert!(
        page.contains("100 %") && page.contains("explicit feedback") && page.contains("data-kind=\"hits\""),
        "{page}"
    );
}

#[tokio::test]
async fn where_keys_are_asked_for_the_page_asks_too() {
    let folder = tempfile::tempdir().unwrap();
    let keys = Keys::open(folder.path()).unwrap();
    let (key, _) = keys.create("", &["work".to_owned()], Access::Read).unwrap();
    let (other, made) = keys.create("other", &["home".to_owned()], Access::Admin).unwrap();
    let server = Server::on(folder, Config { require_key: true, ..Default::default() });
    for path in PAGES {
        assert_eq!(location(&server.get(path).await), "/ui/sign-in", "{path}");
    }
    assert_eq!(submit(&server, "/ui/ask", &[("query", "key")]).await.status, 401);
    let refused = submit(&server, "/ui/sign-in", &[("key", "em_wrong")]).await;
    assert!(refused.text.contains("not known") && !refused.headers.contains_key("set-cookie"));
    let cookie_of = async |key: &str| {
        let signed = submit(&server, "/ui/sign-in", &[("key", key)]).await;
        let cookie = signed.headers["set-cookie"].to_str().unwrap().to_owned();
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
        cookie.split(';').next().unwrap().to_owned()
    };
    let (cookie, admin) = (cookie_of(&key).await, cookie_of(&other).await);
    let with = |method: &str, path: &str, cookie: &str| {
        let builder = Request::builder().method(method).uri(path).header("cookie", cookie).header("host", "localhost");
        let builder = builder.header("sec-fetch-site", "same-origin");
        builder.header("content-type", "application/x-www-form-urlencoded").body(Body::empty()).unwrap()
    };
    server.app.earmark().namespace("work").unwrap();
    server.app.earmark().namespace("home").unwrap();
    let page = server.send(with("GET", "/", &cookie)).await;
    assert!(page.status == 200 && page.text.contains("work") && !page.text.contains("home"), "{}", page.text);
    for path in PAGES {
        let path = format!("{path}{}namespace=home", if path.contains('?') { '&' } else { '?' });
        assert_eq!(server.send(with("GET", &path, &cookie)).await.status, 403, "{path}");
    }
    let settings = server.send(with("GET", "/ui/settings", &cookie)).await.text;
    assert!(!settings.contains(&made.id) && !settings.contains(server.folder.path().to_str().unwrap()), "{settings}");
    for path in ["/ui/learning/freeze", "/ui/memories", &format!("/ui/keys/{}/revoke", made.id)] {
        assert_eq!(server.send(with("POST", path, &cookie)).await.status, 403, "{path}");
    }
    assert_eq!(
        server.send(with("POST", &format!("/ui/keys/{}/revoke", made.id), &admin)).await.status,
        403,
        "not of `*`"
    );
    assert_eq!(server.send(with("GET", "/v1/memories", &cookie)).await.status, 401, "the cookie opens pages only");
    keys.revoke(&made.id).unwrap();
    assert_eq!(location(&server.send(with("GET", "/", &admin)).await), "/ui/sign-in");
}
