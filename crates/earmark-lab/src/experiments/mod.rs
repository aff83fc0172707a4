//! One file for each experiment; [`plan`] is what they share: runs that can be taken up again, rows, folders.

pub mod ablation;
pub mod paper;
pub mod plan;
pub mod recipe;
pub mod recipe_report;
pub mod recipe_runs;
pub mod select;
pub mod summary;
