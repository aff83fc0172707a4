//! What the paper reports, in percent, with Contriever unless another retriever is named.

use crate::experiments::summary::Reported;

const fn recall(method: &'static str, recall_at_5: f64) -> Reported {
    Reported { method, recall_at_5, hit_at_5: None }
}

const fn both(method: &'static str, recall_at_5: f64, hit_at_5: f64) -> Reported {
    Reported { method, recall_at_5, hit_at_5: Some(hit_at_5) }
}

/// Tables 2 and 3, LoCoMo.
pub const LOCOMO: [Reported; 7] = [
    both("only-retriever", 42.60, 52.01),
    both("rl-update", 25.97, 34.31),
    recall("explorer-in-training", 39.99),
    recall("buffer-in-training", 29.54),
    recall("ear", 43.56),
    recall("explorer-only", 41.20),
    both("ear-explorer", 55.06, 70.83),
];

/// Tables 3, 6, 7 and 8, LongMemEval. The RL update is 54.12 here and 59.71 in Table 2.
pub const LONGMEMEVAL: [Reported; 13] = [
    both("only-retriever", 62.37, 86.02),
    recall("rl-update", 54.12),
    recall("explorer-in-training", 69.91),
    recall("buffer-in-training", 66.32),
    recall("ear", 72.80),
    recall("explorer-only", 68.81),
    both("ear-explorer", 80.28, 94.98),
    recall("ear-2-rounds", 68.5),
    recall("ear-8-rounds", 69.5),
    recall("ear-replay-2", 71.3),
    recall("ear-replay-8", 71.0),
    recall("ear-replay-reward", 69.9),
    recall("ear-replay-random", 70.3),
];

/// Table 2, LongMemEval.
pub const LONGMEMEVAL_TABLE_2: [Reported; 3] =
    [both("only-retriever", 62.37, 86.02), both("rl-update", 59.71, 82.08), both("ear-explorer", 80.28, 94.98)];

/// Table 10, LoCoMo; the retriever is that of Table 2. "MonoT5 + EAR" is EAR with its Explorer, as "EAR" is.
pub const LOCOMO_TABLE_10: [Reported; 4] = [
    recall("only-retriever", 42.60),
    recall("ear-explorer", 55.06),
    recall("reranker", 61.46),
    recall("reranker-ear-explorer", 62.08),
];

/// Table 10, LongMemEval.
pub const LONGMEMEVAL_TABLE_10: [Reported; 4] = [
    recall("only-retriever", 62.37),
    recall("ear-explorer", 80.28),
    recall("reranker", 82.20),
    recall("reranker-ear-explorer", 85.50),
];

/// The paper's values of a set for an experiment; empty where it has none.
pub fn of(experiment: &str, dataset: &str) -> &'static [Reported] {
    match (dataset, experiment) {
        ("locomo", "table10") => &LOCOMO_TABLE_10,
        ("longmemeval", "table10") => &LONGMEMEVAL_TABLE_10,
        ("locomo", _) => &LOCOMO,
        ("longmemeval", "table2") => &LONGMEMEVAL_TABLE_2,
        ("longmemeval", _) => &LONGMEMEVAL,
        _ => &[],
    }
}

/// Table 2 for the three retrievers: name, dimension, then Recall@5 of only retriever, RL update and EAR.
pub struct Retriever {
    /// Its name.
    pub name: &'static str,
    /// `d` as B.5 states it.
    pub dimension: usize,
    /// `locomo` or `longmemeval`.
    pub dataset: &'static str,
    /// Only retriever.
    pub alone: f64,
    /// Reranker + RL update.
    pub rl: f64,
    /// EAR with its Explorer.
    pub ear: f64,
}

const fn retriever(
    name: &'static str,
    dimension: usize,
    dataset: &'static str,
    [alone, rl, ear]: [f64; 3],
) -> Retriever {
    Retriever { name, dimension, dataset, alone, rl, ear }
}

/// Table 2, Recall@5 of every retriever.
pub const RETRIEVERS: [Retriever; 6] = [
    retriever("Contriever", 768, "locomo", [42.60, 25.97, 55.06]),
    retriever("Stella", 1024, "locomo", [54.22, 51.95, 63.73]),
    retriever("GTE", 3584, "locomo", [57.59, 39.31, 59.74]),
    retriever("Contriever", 768, "longmemeval", [62.37, 59.71, 80.28]),
    retriever("Stella", 1024, "longmemeval", [66.67, 54.80, 73.47]),
    retriever("GTE", 3584, "longmemeval", [68.89, 33.11, 62.90]),
];

/// A line of Table 5: question type, method, Recall@5 of dialogues and of observations.
pub const TABLE_5: [(&str, &str, f64, f64); 8] = [
    ("single-hop", "only-retriever", 32.95, 63.58),
    ("multi-hop", "only-retriever", 1.89, 16.98),
    ("temporal", "only-retriever", 26.56, 60.94),
    ("open-domain", "only-retriever", 5.56, 22.22),
    ("single-hop", "ear-explorer", 54.33, 62.43),
    ("multi-hop", "ear-explorer", 7.55, 16.67),
    ("temporal", "ear-explorer", 46.88, 53.13),
    ("open-domain", "ear-explorer", 16.67, 22.22),
];

/// Table 8: method and seconds a query at test.
pub const TABLE_8_SECONDS: [(&str, f64); 4] =
    [("only-retriever", 1.80), ("rl-update", 2.30), ("ear", 2.30), ("ear-explorer", 16.88)];

/// Table 9, LongMemEval, EAR's adapter alone: critic, its precision and recall, Recall@5.
pub const TABLE_9: [(&str, f64, f64, f64); 2] = [("simulated", 88.0, 86.0, 72.8), ("GPT 5 Mini", 78.0, 86.0, 70.1)];

/// Table 2: set, method, F1 and J.
pub const ANSWERS: [(&str, &str, f64, f64); 6] = [
    ("locomo", "only-retriever", 25.23, 45.45),
    ("locomo", "rl-update", 17.11, 30.08),
    ("locomo", "ear-explorer", 29.85, 54.44),
    ("longmemeval", "only-retriever", 36.12, 54.84),
    ("longmemeval", "rl-update", 35.06, 49.46),
    ("longmemeval", "ear-explorer", 41.34, 65.23),
];

/// Table 12: the store that a query needs, Δ before and after the adapter.
pub const TABLE_12: [(&str, f64, f64); 10] = [
    ("episodic", -0.001, -0.069),
    ("episodic", -0.023, -0.079),
    ("episodic", -0.033, -0.101),
    ("episodic", -0.023, -0.050),
    ("episodic", -0.008, -0.073),
    ("semantic", -0.001, 0.149),
    ("semantic", 0.033, 0.054),
    ("semantic", 0.002, 0.064),
    ("semantic", -0.006, 0.022),
    ("semantic", -0.004, 0.124),
];
