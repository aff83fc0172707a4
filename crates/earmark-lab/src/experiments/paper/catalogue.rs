//! What the paper's experiments compare.

use earmark::critic::Quality;
use earmark::{
    FinalSlate, Initialisation, LogProbability, Optimizer, Params, Probability, ReplaySampling, ReplayUnobserved,
};
use earmark::{Similarity, TrainingSlate};

use crate::data::Stores;
use crate::methods::{self, Inference, Method};

/// What is reported besides the table of methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Bars beside the paper's values.
    Bars,
    /// Learning curves by training queries, and what it takes to surpass the retriever.
    Queries,
    /// The same by critic calls.
    Calls,
    /// Bars, and learning curves by training queries.
    BarsAndQueries,
    /// Gains by encoder.
    Sizes,
    /// Time by stage.
    Latency,
    /// Recall and share of each memory store by question type.
    Stores,
    /// Distance of queries to the stores before and after the adapter.
    Geometry,
    /// Gains under other readings of the paper.
    Choices,
    /// Bars, with methods on a reranker's candidates.
    Reranker,
}

/// A named list of methods and what is reported of them.
pub struct Experiment {
    /// Name of its subcommand and result folders.
    pub name: &'static str,
    /// Heading.
    pub title: &'static str,
    /// What of the paper it repeats, in a sentence.
    pub shows: &'static str,
    /// The methods, first the one that the others are measured against.
    pub methods: fn(&Params) -> Vec<Method>,
    /// The stores that it searches, each on its own.
    pub stores: &'static [Stores],
    /// What is reported.
    pub part: Part,
}

impl Experiment {
    /// Whether learning curves are drawn; testing at every point of one costs more than training.
    pub fn has_curves(&self) -> bool {
        matches!(self.part, Part::Queries | Part::BarsAndQueries | Part::Calls | Part::Sizes)
    }
}

const DIALOGUES: &[Stores] = &[Stores::Dialogues];

/// All experiments; those that others take runs from come first.
pub const ALL: [Experiment; 12] = [
    Experiment {
        name: "fig3",
        title: "Fig. 3: sample efficiency",
        shows: "The adapter alone by number of training queries, and how many it takes to surpass the retriever for good.",
        methods: |ear| {
            named(ear, &["only-retriever", "rl-update", "explorer-in-training", "buffer-in-training", "ear"])
        },
        stores: DIALOGUES,
        part: Part::Queries,
    },
    Experiment {
        name: "table3",
        title: "Table 3: ablations",
        shows: "What the Explorer and the experience buffer add, in training and at test.",
        methods: methods::paper,
        stores: DIALOGUES,
        part: Part::Bars,
    },
    Experiment {
        name: "table2",
        title: "Table 2: retrieval columns",
        shows: "Recall@5 and Hit@5 of the retriever, the RL update, EAR's adapter and EAR with its Explorer.",
        methods: |ear| named(ear, &["only-retriever", "rl-update", "ear", "ear-explorer"]),
        stores: DIALOGUES,
        part: Part::Bars,
    },
    Experiment {
        name: "fig4",
        title: "Fig. 4: equal critic budget",
        shows: "The adapter alone by critic calls: EAR asks four times a query, so the RL update gets four epochs.",
        methods: budget,
        stores: DIALOGUES,
        part: Part::Calls,
    },
    Experiment {
        name: "fig5",
        title: "Fig. 5: critic noise",
        shows: "The adapter alone under critics of precision and recall 70, 80, 88/86 and 95.",
        methods: noise,
        stores: DIALOGUES,
        part: Part::Queries,
    },
    Experiment {
        name: "table6",
        title: "Table 6: rounds and replay size",
        shows: "EAR's adapter with T = 2, 4, 8 rounds and 2, 4, 8 replayed experiences.",
        methods: rounds_and_replay,
        stores: DIALOGUES,
        part: Part::Bars,
    },
    Experiment {
        name: "table7",
        title: "Table 7: what is replayed",
        shows: "EAR's adapter with the most similar, the worst rewarded and random experiences replayed.",
        methods: sampling,
        stores: DIALOGUES,
        part: Part::Bars,
    },
    Experiment {
        name: "table8",
        title: "Table 8: latency against Recall@5",
        shows: "What a query costs at test, by stage, beside what it finds.",
        methods: |ear| named(ear, &["only-retriever", "rl-update", "ear", "ear-explorer"]),
        stores: DIALOGUES,
        part: Part::Latency,
    },
    Experiment {
        name: "fig7",
        title: "Fig. 7 and B.5: encoder size",
        shows: "Gains by the encoder's dimension: the adapter has twice its square of weights.",
        methods: |ear| named(ear, &["only-retriever", "rl-update", "ear", "ear-explorer"]),
        stores: DIALOGUES,
        part: Part::Sizes,
    },
    Experiment {
        name: "stores",
        title: "Tables 4 and 5, Fig. 6: episodic and semantic memories",
        shows: "Dialogues, observations, and both with half of the candidates each: recall of either store and the mix in the top five.",
        methods: |ear| named(ear, &["only-retriever", "ear", "ear-explorer"]),
        stores: &[Stores::Both, Stores::Dialogues, Stores::Observations],
        part: Part::Stores,
    },
    Experiment {
        name: "geometry",
        title: "Tables 11 and 12: geometry of two stores",
        shows: "Whether queries move to the store they need when the adapter has learned on LoCoMo's dialogues and observations.",
        methods: |ear| named(ear, &["ear"]),
        stores: &[Stores::Both],
        part: Part::Geometry,
    },
    Experiment {
        name: "choices",
        title: "What the paper leaves open",
        shows: "The gains under other readings of the paper, one at a time.",
        methods: choices,
        stores: DIALOGUES,
        part: Part::Choices,
    },
];

/// The experiment that needs a reranker besides the encoder, and so is not among [`ALL`].
pub const TABLE_10: Experiment = Experiment {
    name: "table10",
    title: "Table 10: a reranker alone and under EAR",
    shows: "What a cross-encoder finds among the candidates, and EAR from the reranker's order on: with an untrained \
            adapter and no critic it ranks as the reranker.",
    methods: reranked,
    stores: DIALOGUES,
    part: Part::Reranker,
};

/// The experiment of [`locomo`](super::locomo), which takes several learning rates.
pub const LOCOMO: Experiment = Experiment {
    name: "locomo",
    title: "Tables 2 and 3: LoCoMo",
    shows: "The retrieval columns of both tables, and the learning curve of Fig. 3.",
    methods: methods::paper,
    stores: DIALOGUES,
    part: Part::BarsAndQueries,
};

/// The experiment of [`table9`](super::table9), which needs a language model.
pub const TABLE_9: Experiment = Experiment {
    name: "table9",
    title: "Table 9: a language model as critic",
    shows: "EAR taught by a language model's labels instead of simulated ones, and with the same critic exploring at \
            test; how right the critics are, by the gold memories of the slates they saw.",
    methods: |ear| named(ear, &["only-retriever", "ear", "ear-explorer"]),
    stores: DIALOGUES,
    part: Part::Bars,
};

/// The experiment of [`answering`](super::answering), which needs a language model.
pub const ANSWERS: Experiment = Experiment {
    name: "answers",
    title: "Table 2: F1 and J",
    shows: "A language model answers from the five memories that each method serves, and judges the answers.",
    methods: |ear| named(ear, &["only-retriever", "rl-update", "ear", "ear-explorer"]),
    stores: DIALOGUES,
    part: Part::Bars,
};

/// The experiment of a name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter().chain([&TABLE_10]).find(|experiment| experiment.name == name)
}

/// Some rows of Table 3.
fn named(ear: &Params, names: &[&str]) -> Vec<Method> {
    methods::paper(ear).into_iter().filter(|method| names.contains(&method.name.as_str())).collect()
}

fn one(ear: &Params, name: &str) -> Vec<Method> {
    named(ear, &[name])
}

/// A row of Table 3 under another name and with other parameters.
fn variant(ear: &Params, of: &str, name: &str, change: impl Fn(Params) -> Params) -> Vec<Method> {
    let changed = |method: Method| Method { name: name.to_owned(), params: change(method.params), ..method };
    one(ear, of).into_iter().map(changed).collect()
}

fn budget(ear: &Params) -> Vec<Method> {
    let epochs = |params| Params { epochs: 4, ..params };
    [one(ear, "only-retriever"), variant(ear, "rl-update", "rl-update-4-epochs", epochs), one(ear, "ear")].concat()
}

/// Precision and recall of the critics of Fig. 5, in percent; the third is the paper's usual one.
const CRITICS: [(u8, u8); 4] = [(70, 70), (80, 80), (88, 86), (95, 95)];

fn noise(ear: &Params) -> Vec<Method> {
    let mut all = one(ear, "only-retriever");
    for of in ["ear", "rl-update"] {
        for (precision, recall) in CRITICS {
            let share = |percent: u8| f32::from(percent) / 100.0;
            let quality = Quality { precision: share(precision), recall: share(recall), false_positive_rate: None };
            let usual = quality == Quality::paper();
            let name = if usual { of.to_owned() } else { format!("{of}-{precision}-{recall}") };
            all.extend(one(ear, of).into_iter().map(|method| Method { name: name.clone(), quality, ..method }));
        }
    }
    all
}

fn rounds_and_replay(ear: &Params) -> Vec<Method> {
    let rounds = |rounds| move |params| Params { rounds, ..params };
    let replay = |replay_size| move |params| Params { replay_size, ..params };
    [
        one(ear, "only-retriever"),
        variant(ear, "ear", "ear-2-rounds", rounds(2)),
        one(ear, "ear"),
        variant(ear, "ear", "ear-8-rounds", rounds(8)),
        variant(ear, "ear", "ear-replay-2", replay(2)),
        variant(ear, "ear", "ear-replay-8", replay(8)),
    ]
    .concat()
}

fn sampling(ear: &Params) -> Vec<Method> {
    let replay = |replay_sampling| move |params| Params { replay_sampling, ..params };
    [
        one(ear, "only-retriever"),
        one(ear, "ear"),
        variant(ear, "ear", "ear-replay-reward", replay(ReplaySampling::Reward)),
        variant(ear, "ear", "ear-replay-random", replay(ReplaySampling::Random)),
    ]
    .concat()
}

/// Methods on the retriever's candidates and the same on the reranker's.
const RERANKED: [(&str, &str); 3] =
    [("only-retriever", "reranker"), ("ear", "reranker-ear"), ("ear-explorer", "reranker-ear-explorer")];

fn reranked(ear: &Params) -> Vec<Method> {
    let retrieved = RERANKED.iter().flat_map(|(of, _)| one(ear, of));
    retrieved.chain(RERANKED.iter().flat_map(|(of, name)| variant(ear, of, name, |params| params))).collect()
}

/// Whether a method is on the reranker's candidates.
pub fn is_reranked(method: &Method) -> bool {
    RERANKED.iter().any(|(_, name)| method.name == *name)
}

/// The methods of which every choice is tried.
pub const CHOICE_METHODS: [&str; 3] = ["rl-update", "ear", "ear-explorer"];

/// A change of the parameters of every method.
type Change = fn(Params) -> Params;

/// Other readings of the paper, one at a time: a name and the change.
pub const CHOICES: [(&str, Change); 20] = [
    ("learning rate x 3", |p| Params { learning_rate: 3.0 * p.learning_rate, ..p }),
    ("learning rate x 0.3", |p| Params { learning_rate: 0.3 * p.learning_rate, ..p }),
    ("learning rate x 0.1", |p| Params { learning_rate: 0.1 * p.learning_rate, ..p }),
    ("plain descent, rate x 1000", |p| Params {
        optimizer: Optimizer::Sgd,
        learning_rate: 1000.0 * p.learning_rate,
        ..p
    }),
    ("update after every query", |p| Params { batch_size: 1, ..p }),
    ("dot product", |p| Params { similarity: Similarity::Dot, ..p }),
    ("start of a linear layer", |p| Params { initialisation: Initialisation::Kaiming, ..p }),
    ("K = 10", |p| Params { candidates: 10, ..p }),
    ("K = 50", |p| Params { candidates: 50, ..p }),
    ("picks leave the softmax", |p| Params { probability: Probability::PlackettLuce, ..p }),
    ("loss sees the noise", |p| Params { log_probability: LogProbability::Perturbed, ..p }),
    ("unjudged are not replayed", |p| Params { replay_unobserved: ReplayUnobserved::Skip, ..p }),
    ("training slates without noise", |p| Params {
        training_slate: if p.training_slate == TrainingSlate::Gumbel {
            TrainingSlate::TopScore
        } else {
            p.training_slate
        },
        ..p
    }),
    ("baseline 0", |p| Params { baseline: 0.0, ..p }),
    ("no penalty for alike memories", |p| Params { diversity_weight: 0.0, ..p }),
    ("a tenth of that penalty", |p| Params { diversity_weight: 0.1 * p.diversity_weight, ..p }),
    ("a fifth of the exploration bonus", |p| Params { exploration_strength: 0.2 * p.exploration_strength, ..p }),
    ("relevance weighs 4 times as much", |p| Params { relevance_weight: 4.0 * p.relevance_weight, ..p }),
    ("relevance weighs 10 times as much", |p| Params { relevance_weight: 10.0 * p.relevance_weight, ..p }),
    ("serves the likeliest five", |p| Params { final_slate: FinalSlate::PosteriorBest, ..p }),
];

/// The name of the choice that is a change of the critic, not of a parameter.
pub const CONSTANT_ERRORS: &str = "constant rate of false positives";

fn choices(ear: &Params) -> Vec<Method> {
    let mut all = [one(ear, "only-retriever"), named(ear, &CHOICE_METHODS)].concat();
    for (name, change) in CHOICES {
        all.extend(CHOICE_METHODS.iter().flat_map(|of| variant(ear, of, &format!("{of}, {name}"), change)));
    }
    let quality = Quality { false_positive_rate: Some(0.03), ..Quality::paper() };
    for of in CHOICE_METHODS {
        let name = format!("{of}, {CONSTANT_ERRORS}");
        all.extend(one(ear, of).into_iter().map(|method| Method { name: name.clone(), quality, ..method }));
    }
    all
}

/// Whether a method reads test labels through the critic.
pub fn reads_labels(method: &Method) -> bool {
    method.inference == Inference::Explorer
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_experiment_has_valid_methods_of_different_names() {
        let names: BTreeSet<&str> = ALL.iter().map(|experiment| experiment.name).collect();
        assert_eq!(names.len(), ALL.len());
        for experiment in &ALL {
            let methods = (experiment.methods)(&Params::paper());
            let names: BTreeSet<&str> = methods.iter().map(|method| method.name.as_str()).collect();
            assert_eq!(names.len(), methods.len(), "{}", experiment.name);
            assert!(methods.iter().all(|method| method.params.check().is_ok()), "{}", experiment.name);
        }
    }

    #[test]
    fn variants_change_what_they_are_named_after() {
        let ear = Params::paper();
        let of = |experiment: &str, name: &str| {
            let methods = (find(experiment).unwrap().methods)(&ear);
            methods.into_iter().find(|method| method.name == name).unwrap()
        };
        assert_eq!(of("table6", "ear-8-rounds").params, Params { rounds: 8, ..ear });
        assert_eq!(of("table6", "ear-replay-2").params, Params { replay_size: 2, ..ear });
        assert_eq!(of("table7", "ear-replay-reward").params.replay_sampling, ReplaySampling::Reward);
        assert_eq!(of("fig4", "rl-update-4-epochs").params.epochs, 4);
        assert_eq!(of("fig5", "ear-70-70").quality, Quality { precision: 0.7, recall: 0.7, false_positive_rate: None });
        assert_eq!(of("fig5", "ear").quality, Quality::paper());
        assert_eq!(of("choices", "ear, K = 50").params.candidates, 50);
        assert_eq!(
            of("choices", "rl-update, training slates without noise").params.training_slate,
            TrainingSlate::TopScore
        );
    }
}
