//! `reembed`: a namespace moves to another encoder and keeps what it learned.

use serde::{Deserialize, Serialize};

use super::{Namespace, remember::encoded_text};
use crate::{
    encode::{Encoder, Side},
    error::Result,
    store::{EncoderStamp, Reembedded, ToReembed},
    vector::normalize,
};

/// What was encoded again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReembedReport {
    /// The encoder now in use.
    pub encoder: String,
    /// Memories encoded.
    pub memories: usize,
    /// Past questions encoded.
    pub queries: usize,
}

impl Namespace {
    /// Encodes every memory and every past question with the encoder in use, then switches over at once and learns
    /// from the log again. With the same encoder there is nothing to do. Interrupted, it goes on where it stopped. `progress` hears of what is done and of all.
    ///
    /// # Errors
    /// Encoder and storage errors; the namespace stays with its old encoder until everything is encoded.
    pub fn reembed(&self, progress: &mut dyn FnMut(usize, usize)) -> Result<ReembedReport> {
        const PORTION: usize = 256;
        let encoder = self.shared.encoder()?;
        let stamp = EncoderStamp { model: encoder.model().to_owned(), dimension: encoder.dimension() };
        let mut report = ReembedReport { encoder: stamp.model.clone(), ..Default::default() };
        if self.store.encoder()?.as_ref() == Some(&stamp) {
            return Ok(report);
        }
        self.store.begin_reembed(&stamp)?;
        let counts = self.store.counts()?;
        let all = (counts.memories + counts.closed + counts.open) as usize;
        loop {
            let portion = self.store.reembed_missing(PORTION)?;
            if portion.is_empty() {
                break;
            }
            let done = encode_portion(encoder.as_ref(), &portion)?;
            report.memories += done.iter().filter(|d| matches!(d, Reembedded::Memory(..))).count();
            report.queries += done.iter().filter(|d| matches!(d, Reembedded::Query(..))).count();
            self.store.put_reembedded(done)?;
            progress(report.memories + report.queries, all);
        }
        self.store.finish_reembed()?;
        self.train()?;
        Ok(report)
    }
}

fn encode_portion(encoder: &dyn Encoder, portion: &[ToReembed]) -> Result<Vec<Reembedded>> {
    let (mut texts, mut queries) = (Vec::new(), Vec::new());
    for item in portion {
        match item {
            ToReembed::Memory(row, memory) => {
                texts.push((*row, encoded_text(memory.author.as_deref(), &memory.content)))
            }
            ToReembed::Query { recall_id, query } => queries.push((recall_id.clone(), query.clone())),
        }
    }
    let encode = |texts: Vec<&str>, side| -> Result<Vec<Vec<f32>>> {
        let mut vectors = if texts.is_empty() { Vec::new() } else { encoder.encode(&texts, side)? };
        vectors.iter_mut().for_each(|vector| normalize(vector));
        Ok(vectors)
    };
    let memories = encode(texts.iter().map(|(_, text)| text.as_str()).collect(), Side::Memory)?;
    let questions = encode(queries.iter().map(|(_, text)| text.as_str()).collect(), Side::Query)?;
    let memories = texts.iter().zip(memories).map(|((row, _), vector)| Reembedded::Memory(*row, vector));
    let questions = queries.into_iter().zip(questions).map(|((id, _), vector)| Reembedded::Query(id, vector));
    Ok(memories.chain(questions).collect())
}
