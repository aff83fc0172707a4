//! The laboratory: data sets, metrics, methods, experiments and figures that reproduce the EAR paper and compare recipes.

pub mod data;
pub mod metrics;
pub mod split;
pub mod stats;
pub mod text;
