//! JSON over HTTP, with retries: the only code of the library that opens a connection to a configured endpoint.

use std::time::Duration;

use serde_json::Value;

use crate::error::{Error, Result};

/// Largest answer that is read.
const LARGEST_ANSWER_BYTES: u64 = 256 << 20;
/// Longest pause that an endpoint may ask for with `Retry-After`.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Characters of an error answer that are shown.
const SHOWN: usize = 300;

/// The address of `operation` (`embeddings`, `chat/completions`) under a base address.
///
/// An address that ends with the operation is used as it is; one without a path gets `/v1`; any other path is taken
/// for the versioned base that it is. A query string stays behind the path.
///
/// # Errors
/// [`Error::InvalidInput`] for `field` when it is no http or https address.
pub(crate) fn operation_url(field: &str, base: &str, operation: &str) -> Result<String> {
    let base = base.trim();
    let rest = base.strip_prefix("https://").or_else(|| base.strip_prefix("http://"));
    if rest.is_none_or(|rest| rest.is_empty() || rest.starts_with(['/', '?']) || rest.contains([' ', '#'])) {
        let reason = format!("has to be an address such as http://127.0.0.1:8080/v1, received `{base}`");
        return Err(Error::invalid(field, reason));
    }
    let (address, query) = base.split_at(base.find('?').unwrap_or(base.len()));
    let address = address.trim_end_matches('/');
    let has_path = address.splitn(4, '/').nth(3).is_some();
    Ok(match address {
        _ if address.ends_with(&format!("/{operation}")) => format!("{address}{query}"),
        _ if has_path => format!("{address}/{operation}{query}"),
        _ => format!("{address}/v1/{operation}{query}"),
    })
}

/// A key that is read from the environment; only the variable's name is ever shown.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    variable: Option<String>,
}

impl Key {
    pub(crate) fn from_variable(variable: Option<String>) -> Self {
        Key { variable }
    }

    fn header(&self) -> Option<String> {
        let key = std::env::var(self.variable.as_ref()?).ok()?;
        Some(format!("Bearer {}", key.trim())).filter(|header| header.len() > "Bearer ".len())
    }

    fn hint(&self) -> String {
        match &self.variable {
            Some(name) if self.header().is_some() => format!("check the key in {name}"),
            Some(name) => format!("set the key in {name}, which is empty"),
            None => "name the environment variable that holds the key".into(),
        }
    }
}

/// One endpoint.
pub(crate) struct Endpoint {
    agent: ureq::Agent,
    url: String,
    key: Key,
    retries: u32,
    first_pause: Duration,
}

/// Why a call failed, and whether and when to call again.
struct Failure {
    reason: String,
    again: Option<Option<Duration>>,
}

impl Endpoint {
    /// An endpoint whose calls end after `timeout`, which is final, and are repeated up to `retries` times when the
    /// connection fails or the answer is 408, 425, 429 or 5xx, after a pause that doubles from half a second, or that the
    /// answer's `Retry-After` names.
    pub(crate) fn new(url: String, key: Key, timeout: Duration, retries: u32) -> Self {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(timeout))
            .timeout_connect(Some(timeout.min(Duration::from_secs(10))))
            .user_agent(concat!("earmark/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        Endpoint { agent, url, key, retries, first_pause: Duration::from_millis(500) }
    }

    /// An error of this endpoint.
    pub(crate) fn error(&self, reason: impl Into<String>) -> Error {
        Error::Remote { url: self.url.clone(), reason: reason.into() }
    }

    /// Posts `body` and reads the answer.
    ///
    /// # Errors
    /// [`Error::Remote`] with the last failure.
    pub(crate) fn post(&self, body: &Value) -> Result<Value> {
        let body = body.to_string();
        let mut pause = self.first_pause;
        for attempt in 0.. {
            match self.post_once(&body) {
                Ok(answer) => return Ok(answer),
                Err(Failure { again: Some(asked), .. }) if attempt < self.retries => {
                    std::thread::sleep(asked.unwrap_or(pause).min(LONGEST_PAUSE));
                    pause = pause.saturating_mul(2);
                }
                Err(failure) => return Err(self.error(with_attempts(failure, attempt))),
            }
        }
        Err(self.error("was not called"))
    }

    fn post_once(&self, body: &str) -> std::result::Result<Value, Failure> {
        let mut request = self.agent.post(&self.url).content_type("application/json");
        if let Some(header) = self.key.header() {
            request = request.header("authorization", header);
        }
        let mut response = request.send(body).map_err(|error| Failure {
            reason: format!("no answer: {error}; check that the endpoint runs and its address is right"),
            again: may_work_again(&error),
        })?;
        let status = response.status();
        let asked = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let text = response.body_mut().with_config().limit(LARGEST_ANSWER_BYTES).lossy_utf8(true).read_to_string();
        let text = text.map_err(|error| Failure {
            reason: format!("the answer broke off: {error}"),
            again: may_work_again(&error),
        })?;
        if status.is_success() {
            let parsed = serde_json::from_str(&text);
            return parsed.map_err(|error| Failure {
                reason: format!("the answer is not JSON ({error}): {}", shorten(&text)),
                again: None,
            });
        }
        let again = status.is_server_error() || [408, 425, 429].contains(&status.as_u16());
        let hint = match status.as_u16() {
            401 | 403 => format!("; {}", self.key.hint()),
            404 | 405 => "; check the base address and the model's name".into(),
            _ => String::new(),
        };
        Err(Failure {
            reason: format!("answered {status}: {}{hint}", shorten(&text)),
            again: again.then_some(asked.map(Duration::from_secs)),
        })
    }
}

/// A call that took all its time would take it again: a model that talks without end does not stop at the second try.
fn may_work_again(error: &ureq::Error) -> Option<Option<Duration>> {
    let timed_out = matches!(error, ureq::Error::Timeout(ureq::Timeout::Global));
    (!timed_out).then_some(None)
}

fn with_attempts(failure: Failure, attempt: u32) -> String {
    match attempt {
        0 => failure.reason,
        _ => format!("{} (after {} attempts)", failure.reason, attempt + 1),
    }
}

/// The start of an answer, on one line.
fn shorten(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None if line.is_empty() => "(empty)".into(),
        None => line,
    }
}

#[cfg(test)]
pub(crate) mod stub {
    //! A server that gives prepared answers, for tests.

    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::sync::mpsc::{Receiver, channel};

    /// What the server was asked.
    pub(crate) struct Asked {
        pub(crate) path: String,
        pub(crate) head: String,
        pub(crate) body: String,
    }

    /// Serves each answer `(status line, extra headers, body)` once, then closes; returns the base address and
    /// the requests as they come.
    pub(crate) fn serve(answers: Vec<(&str, &str, String)>) -> (String, Receiver<Asked>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let answers: Vec<String> = answers
            .iter()
            .map(|(status, headers, body)| {
                let length = body.len();
                format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}")
            })
            .collect();
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let asked = read(&mut BufReader::new(&stream));
                stream.write_all(answer.as_bytes()).unwrap();
                let _ = sender.send(asked);
            }
        });
        (base, receiver)
    }

    fn read(stream: &mut impl BufRead) -> Asked {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(stream.read_line(&mut head).unwrap() > 0, "the request broke off");
        }
        let length =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).unwrap();
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        Asked { path, head, body: String::from_utf8(body).unwrap() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_addresses() {
        for (base, expected) in [
            ("http://h:1", "http://h:1/v1/embeddings"),
            ("http://h:1/", "http://h:1/v1/embeddings"),
            ("http://h:1/v1", "http://h:1/v1/embeddings"),
            ("http://h:1/v1/", "http://h:1/v1/embeddings"),
            ("http://h:1/api/paas/v4", "http://h:1/api/paas/v4/embeddings"),
            ("http://h:1/v1/embeddings", "http://h:1/v1/embeddings"),
            ("https://h/v1/embeddings/", "https://h/v1/embeddings"),
            ("https://h/deploy?api-version=2", "https://h/deploy/embeddings?api-version=2"),
        ] {
            assert_eq!(operation_url("encoder.url", base, "embeddings").unwrap(), expected, "{base}");
        }
        let chat = operation_url("critic.url", "http://h:1/v1/", "chat/completions").unwrap();
        assert_eq!(chat, "http://h:1/v1/chat/completions");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for base in ["", "localhost:8080", "ftp://h", "http://", "http:///v1", "http://a b"] {
            let message = operation_url("encoder.url", base, "embeddings").unwrap_err().to_string();
            assert!(message.starts_with("`encoder.url` has to be an address"), "{message}");
        }
    }

    fn endpoint(base: &str, retries: u32) -> Endpoint {
        let key = Key::from_variable(None);
        let mut endpoint = Endpoint::new(format!("{base}/v1/x"), key, Duration::from_secs(5), retries);
        endpoint.first_pause = Duration::from_millis(1);
        endpoint
    }

    #[test]
    fn a_busy_endpoint_is_called_again() {
        let busy = ("429 Too Many Requests", "retry-after: 0\r\n", String::new());
        let (base, asked) =
            stub::serve(vec![busy, ("503 Busy", "", String::new()), ("200 OK", "", "{\"a\": 1}".into())]);
        let answer = endpoint(&base, 4).post(&serde_json::json!({"q": "é"})).unwrap();
        assert_eq!(answer["a"], 1);
        let requests: Vec<_> = asked.iter().collect();
        assert_eq!(requests.len(), 3);
        assert!(requests.iter().all(|request| request.body == "{\"q\":\"é\"}" && request.path == "/v1/x"));
    }

    #[test]
    fn a_refusal_is_not_repeated_and_names_the_address() {
        let (base, asked) = stub::serve(vec![("404 Not Found", "", "no such\nroute".into())]);
        let message = endpoint(&base, 4).post(&Value::Null).unwrap_err().to_string();
        assert!(message.starts_with(&format!("{base}/v1/x: answered 404 Not Found: no such route;")), "{message}");
        assert_eq!(asked.iter().count(), 1);
    }

    #[test]
    fn failures_end_after_the_last_attempt() {
        let busy = || ("500 Oops", "", "x".repeat(1000));
        let (base, _asked) = stub::serve(vec![busy(), busy()]);
        let message = endpoint(&base, 1).post(&Value::Null).unwrap_err().to_string();
        assert!(message.contains("(after 2 attempts)") && message.len() < 500, "{message}");
    }

    #[test]
    fn the_time_limit_is_final() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let mut endpoint = endpoint(&base, 4);
        endpoint.agent =
            ureq::Agent::config_builder().timeout_global(Some(Duration::from_millis(50))).build().new_agent();
        let message = endpoint.post(&Value::Null).unwrap_err().to_string();
        assert!(message.contains("no answer") && !message.contains("attempts"), "{message}");
    }

    #[test]
    fn a_missing_key_is_named_and_never_shown() {
        let (base, _asked) = stub::serve(vec![("401 Unauthorized", "", "who?".into())]);
        let key = Key::from_variable(Some("EARMARK_TEST_NO_SUCH_KEY".into()));
        let endpoint = Endpoint::new(base, key, Duration::from_secs(5), 0);
        let message = endpoint.post(&Value::Null).unwrap_err().to_string();
        assert!(message.contains("set the key in EARMARK_TEST_NO_SUCH_KEY, which is empty"), "{message}");
    }

    #[test]
    fn the_key_of_the_environment_is_sent() {
        let (base, asked) = stub::serve(vec![("200 OK", "", "{}".into())]);
        // PATH is the one variable that is surely set.
        let endpoint = Endpoint::new(base, Key::from_variable(Some("PATH".into())), Duration::from_secs(5), 0);
        endpoint.post(&Value::Null).unwrap();
        let head = asked.recv().unwrap().head;
        assert!(head.contains(&format!("authorization: Bearer {}", std::env::var("PATH").unwrap().trim())), "{head}");
    }
}
