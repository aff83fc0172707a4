//! A closed recall becomes a better ranking: experience (Eq. 11-14, 20), replay (Eq. 15, 19), lesson
//! (Eq. 10, 16, 17), gradient, update (Eq. 18).
//!
//! [`cycle`] is the whole method from top to bottom.

pub mod cycle;
mod experience;
mod gate;
mod gradient;
mod learner;
mod lesson;
mod optimizer;
mod past;
mod ranker;
mod replay;
mod reranker;
mod state;
#[cfg(test)]
mod tests;
mod trust;

pub use experience::{Buffer, Experience};
pub use gate::{Comparison, Gate};
pub use gradient::{dense_gradient, loss};
pub use learner::{Learner, Update};
pub use lesson::{Lesson, Term};
pub use past::{Past, PastLabel, PastQuestion, hindsight};
pub use ranker::{HIT_RATE, Ranker, static_agreement, static_score};
pub use replay::{lowest_reward, most_similar, random_sample};
pub use reranker::{Example, Prior, calibration, fit, logit, probability, refit};
pub use trust::{agreement, trust};
