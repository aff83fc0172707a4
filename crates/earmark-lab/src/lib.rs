//! The laboratory: reproduces the EAR paper and compares recipes.
//!
//! In reading order: [`data`] (sets in one form), [`text`] (what of a memory is encoded), [`candidates`] (the pool of
//! each question), [`rerank`] (in another order), [`split`], [`methods`] (a list of parameter values), [`runner`] (train and test one of them),
//! [`metrics`], [`by_type`] and [`stats`], [`experiments`], and what they leave behind: [`rows`], [`figure`], [`report`].
//! [`llm`] is a language model whose answers are kept, [`llm_critic`] such a critic; [`answers`] asks for answers from
//! memories and judges them.

pub mod answers;
pub mod by_type;
pub mod candidates;
pub mod data;
pub mod encoders;
pub mod evidence;
pub mod experiments;
pub mod figure;
pub mod llm;
pub mod llm_critic;
pub mod methods;
pub mod metrics;
pub mod report;
pub mod rerank;
pub mod rows;
pub mod runner;
pub mod split;
pub mod stats;
pub mod text;
pub mod vectors;
