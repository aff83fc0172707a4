//! An OpenAI-compatible embeddings endpoint on loopback that logs what it is asked.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

/// Status line and body for the texts of a call.
type Answer = dyn Fn(&[String]) -> (&'static str, Value) + Send + Sync;

/// The endpoint; it lives as long as the test process.
#[derive(Clone)]
pub(crate) struct Stub {
    /// `http://127.0.0.1:PORT`.
    pub(crate) base: String,
    paths: Arc<Mutex<Vec<String>>>,
}

impl Stub {
    /// Serves what `answer` says.
    pub(crate) fn serve(answer: impl Fn(&[String]) -> (&'static str, Value) + Send + Sync + 'static) -> Stub {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stub = Stub { base: format!("http://{}", listener.local_addr().unwrap()), paths: Arc::default() };
        let (paths, answer): (_, Arc<Answer>) = (stub.paths.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (paths, answer) = (paths.clone(), answer.clone());
                std::thread::spawn(move || reply(&stream, &paths, answer.as_ref()));
            }
        });
        stub
    }

    /// Serves vectors as the specification has them: `data` with `index` and `embedding`, in order.
    pub(crate) fn of(vector: fn(&str) -> Vec<f32>) -> Stub {
        Stub::serve(move |texts| {
            let item = |(index, text): (usize, &String)| json!({ "index": index, "embedding": vector(text) });
            ("200 OK", json!({ "data": texts.iter().enumerate().map(item).collect::<Vec<_>>() }))
        })
    }

    /// Paths that were requested so far.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.paths.lock().unwrap().clone()
    }
}

fn reply(stream: &TcpStream, paths: &Mutex<Vec<String>>, answer: &Answer) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).unwrap();
    paths.lock().unwrap().push(head.split(' ').nth(1).unwrap_or_default().to_owned());
    let asked: Value = serde_json::from_slice(&body).unwrap();
    let texts: Vec<String> = serde_json::from_value(asked["input"].clone()).unwrap_or_default();
    let (status, answer) = answer(&texts);
    let body = answer.to_string();
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    let _ = (&mut &*stream).write_all(format!("{head}{body}").as_bytes());
}

/// Eight dimensions: 1 at the place of the first known word (red 0, green 1, blue 2, grey 3, other 7).
pub(crate) fn colour(text: &str) -> Vec<f32> {
    let places = [("red", 0), ("green", 1), ("blue", 2), ("grey", 3)];
    let known = |word: &str| places.iter().find(|(name, _)| *name == word).map(|(_, place)| *place);
    let mut vector = vec![0.0; 8];
    vector[text.split_whitespace().find_map(known).unwrap_or(7)] = 1.0;
    vector
}

/// A bag of hashed words `[64]`: similar where words are shared.
pub(crate) fn bag(text: &str) -> Vec<f32> {
    let mut vector = vec![0.01; 64];
    for word in text.to_lowercase().split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        vector[(hash >> 32) as usize % 64] += 1.0;
    }
    vector
}
