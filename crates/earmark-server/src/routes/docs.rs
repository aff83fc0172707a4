//! `/openapi.json`, and `/docs`: the same for people, made here and without any script.

use std::{fmt::Write, sync::Arc};

use axum::{
    Router,
    http::{HeaderValue, header},
    response::{Html, IntoResponse},
    routing::get,
};
use serde_json::Value;
use utoipa::openapi::OpenApi;

/// Routes that serve the document.
pub(crate) fn routes(document: &OpenApi) -> Router {
    let json = serde_json::to_value(document).unwrap_or_default();
    let page: Arc<str> = page(&json).into();
    let text: Arc<str> = json.to_string().into();
    let document = move || {
        let text = text.clone();
        async move { ([(header::CONTENT_TYPE, "application/json")], text.to_string()) }
    };
    let page = move || {
        let page = page.clone();
        async move {
            let mut response = Html(page.to_string()).into_response();
            let policy =
                HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'");
            response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
            response
        }
    };
    Router::new().route("/openapi.json", get(document)).route("/docs", get(page))
}

const HEAD: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Earmark API</title>\
<meta name=\"viewport\" content=\"width=device-width\"><style>\
:root{color-scheme:light dark}body{font:16px/1.5 system-ui;max-width:60rem;margin:2rem auto;padding:0 1rem}\
code{font-size:.9em}summary{cursor:pointer;padding:.3rem 0}summary b{display:inline-block;width:4.5rem}\
td{vertical-align:top;padding:.1rem 1rem .1rem 0}section{border-top:1px solid #8888}</style>";

/// The document as one page.
fn page(document: &Value) -> String {
    let mut out =
        format!("{HEAD}<h1>Earmark API</h1><p>The same for programs: <a href=\"/openapi.json\">/openapi.json</a>.</p>");
    let none = serde_json::Map::new();
    let paths = document["paths"].as_object().unwrap_or(&none);
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap_or(&none) {
            write_operation(&mut out, path, method, operation);
        }
    }
    out.push_str("<section><h2>Schemas</h2>");
    for (name, schema) in document["components"]["schemas"].as_object().unwrap_or(&none) {
        let _ = write!(out, "<details id=\"{0}\"><summary><code>{0}</code></summary>", escape(name));
        let _ = write!(out, "<p>{}</p>", escape(schema["description"].as_str().unwrap_or("")));
        write_fields(&mut out, schema);
        out.push_str("</details>");
    }
    out + "</section></html>"
}

fn write_operation(out: &mut String, path: &str, method: &str, operation: &Value) {
    let text = |key: &str| escape(operation[key].as_str().unwrap_or(""));
    let _ = write!(
        out,
        "<details><summary><b>{}</b> <code>{}</code> {}</summary><p>{}</p><table>",
        escape(&method.to_uppercase()),
        escape(path),
        text("summary"),
        text("description")
    );
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let part = |key: &str| escape(parameter[key].as_str().unwrap_or(""));
        let _ = write!(out, "<tr><td><code>{}</code><td>{}<td>{}", part("name"), part("in"), part("description"));
    }
    let body = &operation["requestBody"]["content"];
    let answer = &operation["responses"]["200"]["content"];
    let _ = write!(out, "<tr><td>body<td><td>{}<tr><td>answer<td><td>{}</table></details>", named(body), named(answer));
}

fn write_fields(out: &mut String, schema: &Value) {
    out.push_str("<table>");
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let kind = field["type"].as_str().map_or_else(|| field["type"].to_string(), str::to_owned);
        let kind = if field["type"].is_null() { String::new() } else { kind };
        let description = field["description"].as_str().unwrap_or("");
        let _ = write!(out, "<tr><td><code>{}</code><td>{}<td>{}", escape(name), escape(&kind), escape(description));
    }
    out.push_str("</table>");
}

/// Links the schema of a body.
fn named(content: &Value) -> String {
    let Some((media, body)) = content.as_object().and_then(|types| types.iter().next()) else { return String::new() };
    let reference = body["schema"]["$ref"].as_str().and_then(|r| r.rsplit('/').next()).map(escape);
    match reference {
        Some(name) => format!("<a href=\"#{name}\">{name}</a> ({})", escape(media)),
        None => escape(media),
    }
}

/// As HTML; links between items of the library have no target here.
fn escape(text: &str) -> String {
    let text = text.replace("[`", "`").replace("`]", "`");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
