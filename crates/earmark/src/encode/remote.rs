//! Any endpoint that speaks OpenAI's `/v1/embeddings`.

use std::time::Duration;

use base64::Engine;
use serde_json::{Value, json};

use super::{Encoder, Side, local::add_scaled};
use crate::error::{Error, Result};
use crate::http::{Endpoint, Key, operation_url};

/// How an endpoint is called.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// Base address: `http://host:port` (then `/v1/embeddings` is called), one with a version
    /// (`https://host/api/v4`, then `/embeddings` is added), or the full address.
    pub url: String,
    /// Model name that the endpoint knows.
    pub model: String,
    /// Environment variable that holds the key; none for endpoints without one.
    pub key_variable: Option<String>,
    /// Dimension of the vectors; `None` asks the endpoint once, when it is opened.
    pub dimension: Option<usize>,
    /// Most texts in one call. Default 64.
    pub batch_size: usize,
    /// Longest duration of one call. Default 60 s.
    pub timeout: Duration,
    /// Repetitions of a failed call. Default 4.
    pub retries: u32,
    /// Put before every query. Default empty.
    pub query_prefix: String,
    /// Put before every memory. Default empty.
    pub memory_prefix: String,
    /// Longest text, in characters, that is sent as one; longer ones go in pieces, whose vectors are averaged by their
    /// lengths. Default `None`: texts are sent whole, and the endpoint decides what it does with long ones.
    pub max_characters: Option<usize>,
}

impl RemoteOptions {
    /// The defaults for an address and a model.
    pub fn new(url: impl Into<String>, model: impl Into<String>) -> Self {
        RemoteOptions {
            url: url.into(),
            model: model.into(),
            key_variable: None,
            dimension: None,
            batch_size: 64,
            timeout: Duration::from_secs(60),
            retries: 4,
            query_prefix: String::new(),
            memory_prefix: String::new(),
            max_characters: None,
        }
    }
}

/// An encoder behind an OpenAI-compatible endpoint.
///
/// A call that fails is repeated after a pause; when it fails for good no vector of the call is returned.
pub struct Remote {
    endpoint: Endpoint,
    options: RemoteOptions,
    dimension: usize,
}

impl Remote {
    /// Checks the address and, when the dimension is not given, asks the endpoint for one vector.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for an address, model or batch size that cannot be used; [`Error::Remote`] when the
    /// endpoint has to be asked and does not answer.
    pub fn open(options: RemoteOptions) -> Result<Self> {
        let url = operation_url("encoder.url", &options.url, "embeddings")?;
        if options.model.trim().is_empty() {
            return Err(Error::invalid("encoder.model", "has to name the model that the endpoint serves"));
        }
        if options.batch_size == 0 || options.dimension == Some(0) || options.max_characters == Some(0) {
            return Err(Error::invalid("encoder", "needs a batch size, a dimension and a longest text of at least 1"));
        }
        let key = Key::from_variable(options.key_variable.clone());
        let endpoint = Endpoint::new(url, key, options.timeout, options.retries);
        let mut remote = Remote { endpoint, dimension: options.dimension.unwrap_or(0), options };
        if remote.dimension == 0 {
            remote.dimension = remote.call(&["dimension"])?.first().map_or(0, Vec::len);
        }
        Ok(remote)
    }

    /// One call, with the checks that need no known dimension.
    fn call<T: AsRef<str>>(&self, texts: &[T]) -> Result<Vec<Vec<f32>>> {
        let texts: Vec<&str> = texts.iter().map(T::as_ref).collect();
        let answer = self.endpoint.post(&json!({"model": self.options.model, "input": texts}))?;
        let vectors = read_vectors(&answer, texts.len()).map_err(|reason| self.endpoint.error(reason))?;
        match vectors.iter().find(|vector| vector.is_empty() || vector.iter().any(|value| !value.is_finite())) {
            Some(_) => Err(self.endpoint.error("one of the vectors is empty or not of finite numbers")),
            None => Ok(vectors),
        }
    }

    fn check_dimension(&self, vectors: &[Vec<f32>]) -> Result<()> {
        match vectors.iter().find(|vector| vector.len() != self.dimension) {
            Some(vector) => {
                let reason = format!("a vector has {} values, expected {}", vector.len(), self.dimension);
                Err(self.endpoint.error(format!("{reason}; the endpoint serves another model than before")))
            }
            None => Ok(()),
        }
    }
}

impl Encoder for Remote {
    fn model(&self) -> &str {
        &self.options.model
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn encode(&self, texts: &[&str], side: Side) -> Result<Vec<Vec<f32>>> {
        let prefix = match side {
            Side::Query => &self.options.query_prefix,
            Side::Memory => &self.options.memory_prefix,
        };
        let most = self.options.max_characters.unwrap_or(usize::MAX);
        let pieces: Vec<Vec<&str>> = texts.iter().map(|text| pieces(text, most)).collect();
        let all: Vec<&str> = pieces.concat();
        let mut vectors = Vec::with_capacity(all.len());
        for batch in all.chunks(self.options.batch_size) {
            let batch: Vec<String> = batch.iter().map(|text| format!("{prefix}{text}")).collect();
            let part = self.call(&batch)?;
            self.check_dimension(&part)?;
            vectors.extend(part);
        }
        let mut vectors = vectors.into_iter();
        Ok(pieces.iter().map(|pieces| mean(pieces, vectors.by_ref().take(pieces.len()).collect())).collect())
    }
}

/// A text in pieces of at most `most` characters, cut behind white space where there is any.
fn pieces(text: &str, most: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((end, _)) = rest.char_indices().nth(most) {
        let blank = rest[..end].char_indices().rfind(|(_, c)| c.is_whitespace());
        let blank = blank.filter(|(at, _)| !rest[..*at].trim().is_empty());
        let (piece, after) = rest.split_at(blank.map_or(end, |(at, c)| at + c.len_utf8()));
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

/// The mean of the pieces' vectors, each weighted by its length in bytes.
fn mean(pieces: &[&str], mut vectors: Vec<Vec<f32>>) -> Vec<f32> {
    if let [_] = pieces {
        return vectors.swap_remove(0);
    }
    let all: f32 = pieces.iter().map(|piece| piece.len() as f32).sum();
    let mut mean = vec![0.0; vectors[0].len()];
    for (piece, vector) in pieces.iter().zip(&vectors) {
        add_scaled(&mut mean, vector, piece.len() as f32 / all);
    }
    mean
}

/// The vectors of an answer in the order of the texts: by `index` when every item has one, else as they come.
fn read_vectors(answer: &Value, expected: usize) -> Result<Vec<Vec<f32>>, String> {
    let items = answer.get("data").and_then(Value::as_array);
    let items = items.ok_or("the answer has no list `data`; is this an embeddings endpoint?")?;
    if items.len() != expected {
        return Err(format!("{} vectors came for {expected} texts", items.len()));
    }
    let indices: Vec<Option<u64>> = items.iter().map(|item| item.get("index").and_then(Value::as_u64)).collect();
    let ordered = indices.iter().any(Option::is_some);
    let mut vectors = vec![None; expected];
    for (position, (item, index)) in items.iter().zip(&indices).enumerate() {
        let place = if ordered { index.map(|index| index as usize) } else { Some(position) };
        let free = place.and_then(|place| vectors.get_mut(place)).filter(|slot| slot.is_none());
        let slot = free.ok_or_else(|| wrong_indices(&indices, expected))?;
        *slot = Some(read_vector(item)?);
    }
    vectors.into_iter().collect::<Option<_>>().ok_or_else(|| wrong_indices(&indices, expected))
}

fn wrong_indices(indices: &[Option<u64>], expected: usize) -> String {
    let show = |index: &Option<u64>| index.map_or("none".into(), |index| index.to_string());
    let received: Vec<String> = indices.iter().take(20).map(show).collect();
    format!("the `index` of the vectors: expected each of 0..{expected} once, received {}", received.join(", "))
}

/// A list of numbers, or base64 of little-endian f32.
fn read_vector(item: &Value) -> Result<Vec<f32>, String> {
    match item.get("embedding") {
        Some(Value::Array(values)) => {
            let numbers: Option<Vec<f32>> =
                values.iter().map(|value| value.as_f64().map(|value| value as f32)).collect();
            numbers.ok_or_else(|| "a vector holds something that is no number".into())
        }
        Some(Value::String(text)) => decode(text),
        _ => Err("an item has no `embedding`".into()),
    }
}

fn decode(text: &str) -> Result<Vec<f32>, String> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(text);
    let bytes = bytes.map_err(|error| format!("a vector is text, but not base64: {error}"))?;
    match bytes.as_chunks() {
        (values, []) => Ok(values.iter().map(|value| f32::from_le_bytes(*value)).collect()),
        _ => Err(format!("a base64 vector has {} bytes, which are no whole f32 values", bytes.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::stub;

    const TEXTS: [&str; 3] = ["red apple", "green pear", "blue plum"];

    fn remote(answers: Vec<Value>) -> (Remote, std::sync::mpsc::Receiver<stub::Asked>) {
        let answers = answers.into_iter().map(|answer| ("200 OK", "", answer.to_string())).collect();
        let (base, asked) = stub::serve(answers);
        let options = RemoteOptions { dimension: Some(2), ..RemoteOptions::new(base, "m") };
        (Remote::open(options).unwrap(), asked)
    }

    fn encode(data: Value) -> Result<Vec<Vec<f32>>> {
        remote(vec![json!({"data": data})]).0.encode(&TEXTS, Side::Memory)
    }

    #[test]
    fn vectors_are_paired_by_index() {
        let expected = [[1.0, 0.5], [2.0, 0.5], [3.0, 0.5]];
        let reversed = json!([
            {"index": 2, "embedding": [3, 0.5]}, {"index": 1, "embedding": [2, 0.5]}, {"index": 0, "embedding": [1, 0.5]}
        ]);
        assert_eq!(encode(reversed).unwrap(), expected);
        let plain = json!([{"embedding": [1, 0.5]}, {"embedding": [2, 0.5]}, {"embedding": [3, 0.5]}]);
        assert_eq!(encode(plain).unwrap(), expected);
        let base64 =
            json!([{"embedding": "AACAPwAAAD8="}, {"embedding": "AAAAQAAAAD8="}, {"embedding": "AABAQAAAAD8="}]);
        assert_eq!(encode(base64).unwrap(), expected);
    }

    #[test]
    fn wrong_answers_are_errors() {
        let vector = |index: u64| json!({"index": index, "embedding": [1, 2]});
        for (data, expected) in [
            (json!([vector(0), vector(0), vector(1)]), "expected each of 0..3 once, received 0, 0, 1"),
            (json!([vector(0), vector(1), vector(7)]), "received 0, 1, 7"),
            (json!([vector(0), vector(1), {"embedding": [1, 2]}]), "received 0, 1, none"),
            (json!([vector(0), vector(1)]), "2 vectors came for 3 texts"),
            (json!([vector(0), vector(1), {"index": 2, "embedding": [1]}]), "has 1 values, expected 2"),
            (json!([vector(0), vector(1), {"index": 2, "embedding": [1, null]}]), "no number"),
            (json!([vector(0), vector(1), {"index": 2, "embedding": "AAA="}]), "no whole f32"),
            (json!([vector(0), vector(1), {"index": 2, "embedding": "AADAfwAAgD8="}]), "finite"),
            (json!("x"), "no list `data`"),
        ] {
            let message = encode(data).unwrap_err().to_string();
            assert!(message.contains(expected) && message.contains("/v1/embeddings: "), "{message}");
        }
    }

    #[test]
    fn batches_keep_the_order() {
        let part =
            |values: &[f32]| json!({"data": values.iter().map(|v| json!({"embedding": [v, 0]})).collect::<Vec<_>>()});
        let (mut remote, asked) = remote(vec![part(&[1.0, 2.0]), part(&[3.0])]);
        remote.options.batch_size = 2;
        remote.options.memory_prefix = "passage: ".into();
        let vectors = remote.encode(&TEXTS, Side::Memory).unwrap();
        assert_eq!(vectors, [[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]);
        let first: Value = serde_json::from_str(&asked.recv().unwrap().body).unwrap();
        assert_eq!(first, json!({"model": "m", "input": ["passage: red apple", "passage: green pear"]}));
    }

    #[test]
    fn long_texts_go_in_pieces() {
        assert_eq!(pieces("red apple pie", 9), ["red ", "apple pie"]);
        assert_eq!(pieces("äöüäöü", 4), ["äöüä", "öü"]);
        assert_eq!(pieces(" pears", 4), [" pea", "rs"]);
        assert_eq!((pieces("", 4), pieces("pear", 4)), (vec![""], vec!["pear"]));
        let data = json!({"data": [{"embedding": [1, 0]}, {"embedding": [5, 4]}, {"embedding": [7, 7]}]});
        let (mut remote, asked) = remote(vec![data]);
        remote.options.max_characters = Some(10);
        let vectors = remote.encode(&["red apple grey", "plum"], Side::Memory).unwrap();
        // "red apple " and "grey": 10 / 14 of [1, 0] and 4 / 14 of [5, 4].
        let expected = [[30.0 / 14.0, 16.0 / 14.0], [7.0, 7.0]];
        assert!(vectors.concat().iter().zip(expected.concat()).all(|(a, b)| (a - b).abs() < 1e-6), "{vectors:?}");
        let sent: Value = serde_json::from_str(&asked.recv().unwrap().body).unwrap();
        assert_eq!(sent["input"], json!(["red apple ", "grey", "plum"]));
    }

    #[test]
    fn the_dimension_is_asked_for() {
        let (base, _asked) = stub::serve(vec![("200 OK", "", json!({"data": [{"embedding": [1, 2, 3]}]}).to_string())]);
        let remote = Remote::open(RemoteOptions::new(base, "m")).unwrap();
        assert_eq!((remote.dimension(), remote.model()), (3, "m"));
    }
}
