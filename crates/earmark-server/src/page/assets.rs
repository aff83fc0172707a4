//! Files that pages load, all of them in the program.

use axum::{
    extract::Path,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

const FILES: [(&str, &str, &str); 8] = [
    ("page.css", STYLE, include_str!("static/page.css")),
    ("page.js", SCRIPT, include_str!("static/page.js")),
    ("htmx.min.js", SCRIPT, include_str!("static/htmx.min.js")),
    ("LICENSE-htmx", TEXT, include_str!("static/LICENSE-htmx")),
    ("uplot.min.js", SCRIPT, include_str!("static/uplot.min.js")),
    ("uplot.min.css", STYLE, include_str!("static/uplot.min.css")),
    ("LICENSE-uplot", TEXT, include_str!("static/LICENSE-uplot")),
    ("icon.svg", "image/svg+xml", include_str!("static/icon.svg")),
];

pub(super) async fn file(Path(name): Path<String>) -> Response {
    match FILES.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => {
            ([(header::CONTENT_TYPE, *kind), (header::CACHE_CONTROL, "max-age=300")], *text).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
