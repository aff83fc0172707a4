//! What every page has: where it is, and the way to the others; and what its forms send.

use std::fmt::Write;

use axum::{
    Form,
    extract::{FromRequest, Request},
};
use earmark::Error;
use jiff::Timestamp;
use serde::Deserialize;

use crate::{access::Caller, app::App, keys::Access, problem::Problem};

/// Where a page is.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) namespace: String,
    /// Those that the caller may choose, the one in use among them.
    pub(super) namespaces: Vec<String>,
    /// Path of the page in the navigation.
    pub(super) here: &'static str,
    pub(super) signed_in: bool,
}

impl Frame {
    /// The frame of a page that reads the namespace.
    pub(super) async fn of(
        app: &App,
        caller: &Caller,
        named: Option<&str>,
        here: &'static str,
    ) -> Result<Frame, Problem> {
        let namespace = caller.enter(named.filter(|name| !name.is_empty()), Access::Read)?;
        let mut namespaces = app.run(|earmark| earmark.namespaces()).await?;
        namespaces.retain(|name| caller.sees(name));
        if !namespaces.contains(&namespace) {
            if namespace != "default" {
                return Err(Error::not_found("namespace", namespace).into());
            }
            namespaces.insert(0, namespace.clone());
        }
        Ok(Frame { namespace, namespaces, here, signed_in: matches!(caller, Caller::Holder(_)) })
    }

    /// The pages, in order.
    pub(super) fn pages(&self) -> [(&'static str, &'static str); 6] {
        [
            ("/", "Overview"),
            ("/ui/ask", "Ask"),
            ("/ui/recalls", "Recalls"),
            ("/ui/memories", "Memories"),
            ("/ui/learning", "Learning"),
            ("/ui/settings", "Settings"),
        ]
    }

    /// `path` in this namespace.
    pub(super) fn link(&self, path: &str) -> String {
        link(path, &self.namespace)
    }
}

/// `path` in a namespace.
pub(super) fn link(path: &str, namespace: &str) -> String {
    match namespace {
        "default" => path.to_owned(),
        _ => format!("{path}?namespace={}", encoded(namespace)),
    }
}

/// Text as part of an address.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

/// The query string of most pages.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Place {
    pub(super) namespace: Option<String>,
    /// Set after a change was saved.
    pub(super) saved: Option<String>,
}

/// What a form sent.
#[derive(Debug)]
pub(super) struct Fields(Vec<(String, String)>);

impl FromRequest<App> for Fields {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let read = Form::<Vec<(String, String)>>::from_request(request, app).await;
        read.map(|Form(fields)| Fields(fields)).map_err(|e| Problem::invalid("", e.body_text()))
    }
}

impl Fields {
    /// A field as it is.
    pub(super) fn raw(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// A field that is not blank.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        Some(self.raw(name).trim()).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// A number, if there is one.
    ///
    /// # Errors
    /// 400 that names the field.
    pub(super) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Problem> {
        let read = |text: String| text.parse().map_err(|_| Problem::invalid(name, format!("is no number: `{text}`")));
        self.text(name).map(read).transpose()
    }

    /// The namespace that the form is about.
    pub(super) fn namespace(&self) -> Option<&str> {
        Some(self.raw("namespace")).filter(|name| !name.is_empty())
    }

    /// Names behind `prefix` of the fields that have this value.
    pub(super) fn with_value(&self, prefix: &str, wanted: &str) -> Vec<String> {
        let names = self.0.iter().filter(|(_, value)| value == wanted);
        names.filter_map(|(name, _)| name.strip_prefix(prefix)).map(str::to_owned).collect()
    }

    /// Values of every field of this name.
    pub(super) fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(known, _)| known == name).map(|(_, value)| value.clone()).collect()
    }
}

/// Day and minute, in UTC.
pub(super) fn minute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M").to_string()
}

/// The start of a text.
pub(super) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Who ranked.
pub(super) fn ranked_by(version: i64) -> String {
    if version == 0 { "static order".to_owned() } else { format!("learned version {version}") }
}

/// The door that a label's source stands for.
pub(super) fn door(source: &str) -> &str {
    match source {
        "answer" => "an answer's citations",
        "next_recall" => "told with the next recall",
        "critic" => "the critic",
        "explicit" => "explicit feedback",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_in_addresses() {
        assert_eq!(link("/ui/ask", "default"), "/ui/ask");
        assert_eq!(link("/ui/ask", "a b&c=\"<ü"), "/ui/ask?namespace=a%20b%26c%3D%22%3C%C3%BC");
        assert_eq!((shortened("über", 9), shortened("über", 2)), ("über".to_owned(), "üb…".to_owned()));
    }
}
