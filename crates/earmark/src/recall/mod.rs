//! A query becomes a slate: candidates (Eq. 1), relevance (Eq. 3-4), exploration (Eq. 5-9).
//!
//! Pure: nothing here reads a file, a clock or a hidden random number, and nothing can fail once a
//! [`Pool`] exists.

mod adapter;
mod episode;
mod explore;
mod facts;
mod features;
mod pool;
mod posterior;
mod slate;
mod turn;

#[cfg(test)]
pub(crate) use adapter::adapt_all;
pub(crate) use adapter::stack;
pub use adapter::{Adapted, Adapter, probabilities};
pub use episode::{Closed, Episode, Round};
pub use explore::{Arm, greedy_slate, redundancy, score, ucb};
pub use facts::{Facts, Question};
pub use features::{
    AROUND, Corpus, Evidence, FEATURE_NAMES, FEATURES, Hindsight, PAST_FEATURES, STATIC_PRECISION, STATIC_WEIGHTS,
    features, fused_score,
};
pub use pool::{Candidate, Label, Pool, mean_utility, top_k};
pub use posterior::{Beliefs, CriticRates, PosteriorEpisode, Propagation};
pub use slate::{Pick, Slate, Terms, gumbel_slate, top_slate};
pub use turn::{Ranking, Turn};
