//! An answer that passes through unchanged while its text is collected.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use earmark::chat::is_cut;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use serde_json::Value;

/// Longest answer that is collected, in bytes as they come; longer ones pass through unread.
const LONGEST: usize = 16 << 20;

/// Receives the answer once it is through; `None` if it broke off.
type After = Box<dyn FnOnce(Option<Answer>) + Send>;

/// What the model said.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub(super) text: String,
    /// A limit or a filter ended it.
    pub(super) cut: bool,
}

/// The body that passes.
pub(super) struct Listened {
    inner: Incoming,
    heard: Heard,
    after: Option<After>,
}

impl Listened {
    /// Listens to an event stream, or else to one JSON document.
    pub(super) fn new(inner: Incoming, streams: bool, after: impl FnOnce(Option<Answer>) + Send + 'static) -> Self {
        let heard = if streams { Heard::Events(Events::default()) } else { Heard::Document(Vec::new()) };
        Listened { inner, heard, after: Some(Box::new(after)) }
    }

    fn end(&mut self, whole: bool) {
        if let Some(after) = self.after.take() {
            after(self.heard.answer(whole));
        }
    }
}

impl Body for Listened {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(bytes) = frame.data_ref() {
                    self.heard.take(bytes);
                }
                if self.inner.is_end_stream() {
                    self.end(true);
                }
            }
            Poll::Ready(None) => self.end(true),
            Poll::Ready(Some(Err(_))) => self.end(false),
            Poll::Pending => (),
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Listened {
    /// The client left, or the end was known from the length.
    fn drop(&mut self) {
        let whole = self.inner.is_end_stream();
        self.end(whole);
    }
}

/// What was heard so far.
enum Heard {
    Document(Vec<u8>),
    Events(Events),
}

impl Heard {
    fn take(&mut self, bytes: &[u8]) {
        match self {
            Heard::Document(document) if document.len() <= LONGEST => document.extend_from_slice(bytes),
            Heard::Document(_) => (),
            Heard::Events(events) => events.take(bytes),
        }
    }

    fn answer(&mut self, whole: bool) -> Option<Answer> {
        match self {
            Heard::Document(document) => {
                let answer: Value = serde_json::from_slice(document).ok().filter(|_| whole)?;
                let choice = first_choice(&answer)?;
                Some(Answer { text: content(choice.get("message")?), cut: is_cut(choice) })
            }
            Heard::Events(events) => events.answer(whole),
        }
    }
}

/// A stream of server-sent events, whose lines may be cut anywhere.
#[derive(Default)]
struct Events {
    line: Vec<u8>,
    after_return: bool,
    data: String,
    answer: String,
    size: usize,
    finished: bool,
    cut: bool,
    failed: bool,
}

impl Events {
    fn take(&mut self, bytes: &[u8]) {
        self.size += bytes.len();
        if self.size > LONGEST {
            return;
        }
        for &byte in bytes {
            match byte {
                b'\n' if self.after_return => (),
                b'\n' | b'\r' => self.end_line(),
                _ => self.line.push(byte),
            }
            self.after_return = byte == b'\r';
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return self.end_event();
        }
        let line = String::from_utf8_lossy(&line);
        if let Some(data) = line.strip_prefix("data:") {
            self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
            self.data.push('\n');
        }
    }

    fn end_event(&mut self) {
        let data = std::mem::take(&mut self.data);
        if data.trim() == "[DONE]" {
            self.finished = true;
        }
        let Ok(event) = serde_json::from_str::<Value>(&data) else { return };
        self.failed |= event.get("error").is_some_and(|error| !error.is_null());
        let Some(choice) = first_choice(&event) else { return };
        self.answer.push_str(&content(&choice["delta"]));
        self.finished |= choice["finish_reason"].as_str().is_some_and(|reason| !reason.is_empty());
        self.cut |= is_cut(choice);
    }

    /// A stream that broke off after its last word is whole; one that ends with an error is not.
    fn answer(&mut self, whole: bool) -> Option<Answer> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.end_event();
        let known = (whole || self.finished) && !self.failed && self.size <= LONGEST;
        known.then(|| Answer { text: std::mem::take(&mut self.answer), cut: self.cut })
    }
}

/// The choice with index 0, which some leave out; chunks about usage have none.
fn first_choice(answer: &Value) -> Option<&Value> {
    let choices = answer.get("choices")?.as_array()?;
    choices.iter().find(|choice| choice["index"].as_u64().unwrap_or(0) == 0)
}

fn content(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: &str = ": warming up\n\ndata:{\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\r\n\r\n\
        data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Behind the boiler \"}}]}\n\n\
        event: ping\ndata:\n\n\
        data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"🗝 [1].\"},\"finish_reason\":\"stop\"}]}\n\n\
        data: {\"choices\":[],\"usage\":{\"total_tokens\":15}}\n\n";

    fn heard(pieces: impl Iterator<Item = Vec<u8>>, whole: bool) -> Option<String> {
        let mut events = Heard::Events(Events::default());
        pieces.for_each(|piece| events.take(&piece));
        events.answer(whole).map(|answer| answer.text)
    }

    #[test]
    fn event_streams_are_read_however_they_are_cut() {
        for size in [1, 2, 3, 7, 10_000] {
            let pieces = || ODD.as_bytes().chunks(size).map(<[u8]>::to_vec);
            assert_eq!(heard(pieces(), true).as_deref(), Some("Behind the boiler 🗝 [1]."), "{size}");
            assert!(heard(pieces(), false).is_some(), "its last word was said");
            assert!(heard(pieces().take(ODD.len() / size / 2), false).is_none(), "cut at {size}");
        }
        let last = "data: {\"choices\":[{\"delta\":{\"content\":\"no end\"}}]}";
        assert_eq!(heard([last.as_bytes().to_vec()].into_iter(), true).as_deref(), Some("no end"));
    }

    #[test]
    fn a_stream_that_ends_with_an_error_broke_off_and_a_limit_cuts() {
        let said = "data: {\"choices\":[{\"finish_reason\":null,\"index\":0,\"delta\":{\"content\":\"Half\"}}]}\n\n";
        let error = "data: {\"error\":{\"code\":500,\"message\":\"out of memory\"}}\n\n";
        let limit = "data: {\"choices\":[{\"finish_reason\":\"length\",\"index\":0,\"delta\":{}}]}\n\ndata: [DONE]\n\n";
        let answer = |stream: String| {
            let mut heard = Heard::Events(Events::default());
            heard.take(stream.as_bytes());
            heard.answer(true)
        };
        assert_eq!(answer(format!("{said}{error}")), None);
        assert_eq!(answer(format!("{said}{limit}")), Some(Answer { text: "Half".to_owned(), cut: true }));
        assert_eq!(answer(said.to_owned()), Some(Answer { text: "Half".to_owned(), cut: false }));
    }

    #[test]
    fn documents_are_read_when_whole() {
        let document = |text: &str, whole| {
            let mut heard = Heard::Document(Vec::new());
            heard.take(text.as_bytes());
            heard.answer(whole).map(|answer| answer.text)
        };
        let answer = "{\"choices\":[{\"message\":{\"content\":\"So [1].\"}}]}";
        assert_eq!(document(answer, true).as_deref(), Some("So [1]."));
        assert_eq!(document(&answer.replace("\"So [1].\"", "null"), true).as_deref(), Some(""));
        for odd in ["", "{", "{\"choices\":[]}", "[1]", "{\"error\":{}}"] {
            assert_eq!(document(odd, true), None, "{odd}");
        }
        assert_eq!(document(answer, false), None);
    }
}
