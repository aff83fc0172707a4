//! The Rust side of `scripts/encode_bench.py`: encodes the same texts again and again.
//!
//! `encode_bench FOLDER TEXTS.json THREADS [f32]` reads batch sizes from standard input, one a line; for each it
//! encodes all texts once in batches of that size and answers with the seconds it took.

use std::error::Error;
use std::io::BufRead;
use std::path::Path;
use std::time::Instant;

use earmark::encode::{Encoder, Local, LocalOptions, Side};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (folder, texts, threads, full_precision) = match arguments.as_slice() {
        [folder, texts, threads] => (folder, texts, threads, false),
        [folder, texts, threads, last] if last == "f32" => (folder, texts, threads, true),
        _ => return Err("usage: encode_bench FOLDER TEXTS.json THREADS [f32]".into()),
    };
    let texts: Vec<String> = serde_json::from_str(&std::fs::read_to_string(texts)?)?;
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let options = LocalOptions { threads: Some(threads.parse()?), full_precision, ..LocalOptions::default() };
    let encoder = Local::from_folder(folder, Path::new(folder), &options)?;
    for line in std::io::stdin().lock().lines() {
        let size: usize = line?.trim().parse()?;
        let start = Instant::now();
        for batch in texts.chunks(size.max(1)) {
            encoder.encode(batch, Side::Memory)?;
        }
        println!("{}", start.elapsed().as_secs_f64());
    }
    Ok(())
}
