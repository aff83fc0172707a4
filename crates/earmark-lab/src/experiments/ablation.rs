//! The `default` recipe with one part left out at a time: what each part adds.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Mutex;

use anyhow::Result;
use earmark::Params;
use earmark::recall::PAST_FEATURES;
use indicatif::ProgressBar;
use rayon::prelude::*;

use super::plan::ResultFolder;
use super::recipe::{self, Answer, State, Without};
use super::recipe_runs::{Material, Settings, row_of};
use super::summary;
use crate::report::Provenance;
use crate::rows::{self, Row, RunKey};

const NOTHING: Without = Without {
    features: &[],
    fitting: false,
    trust: false,
    misses: false,
    gate: false,
    critic: false,
    last_place: false,
};

/// Name, what it means, and what is left out or replaced. The ranges are those of the feature table, which a test holds to it.
#[expect(clippy::single_range_in_vec_init, reason = "a part is a list of ranges, often of one")]
const PARTS: [(&str, &str, Without); 14] = [
    ("whole", "nothing is left out", NOTHING),
    (
        "no-fitting",
        "the weights stay those of the static order; past feedback is looked at",
        Without { fitting: true, ..NOTHING },
    ),
    ("no-past", "past feedback is not looked at; the weights are fitted", without(&[PAST_FEATURES..PAST_FEATURES + 3])),
    ("no-extra-arms", "meaning, words and ranks apart from the joint score", without(&[2..7])),
    ("no-turns-beside", "turns beside", without(&[7..9])),
    ("no-place", "whether it opens its session", without(&[21..22])),
    ("no-authors", "who speaks, whom the question names", without(&[9..13])),
    ("no-times-and-numbers", "times, months and numbers", without(&[13..18])),
    ("no-form", "length and questions", without(&[18..21])),
    ("no-trust", "every label is believed", Without { trust: true, ..NOTHING }),
    ("no-misses", "a label \"not useful\" is never taken for an oversight", Without { misses: true, ..NOTHING }),
    ("no-gate", "the learned order always ranks", Without { gate: true, ..NOTHING }),
    (
        "gold-labels",
        "learned from the gold labels of all candidates, not a critic's of five: what the features can do",
        Without { critic: true, ..NOTHING },
    ),
    (
        "explored-place",
        "while learning, the last place goes to what weights drawn from their posterior put first",
        Without { last_place: true, ..NOTHING },
    ),
];

const fn without(features: &'static [Range<usize>]) -> Without {
    Without { features, ..NOTHING }
}

/// Name of the slates that were served while learning.
const SERVED: &str = "served";

/// How each part is tested: name behind that of the part, how it answers, whether it has learned.
const ANSWERS: [(&str, Answer, bool); 3] = [
    ("static", Answer::Ranked, false),
    ("learned", Answer::Ranked, true),
    ("3 calls", Answer::Explored { calls: 3, auto: false }, true),
];

/// Runs every part and seed of one set and one encoder that the folder lacks.
///
/// # Errors
/// Those of the disk.
pub fn run(settings: &Settings, folder: &ResultFolder, material: &Material<'_>, progress: &ProgressBar) -> Result<()> {
    let there = folder.rows()?;
    let known =
        |part: &str, seed: u64| there.iter().any(|row| row.key == key(settings, material, part, "learned", seed));
    let jobs = settings.seed_list().into_iter().flat_map(|seed| PARTS.iter().map(move |part| (part, seed)));
    let missing: Vec<_> = jobs.filter(|(part, seed)| !known(part.0, *seed)).collect();
    progress.set_length(missing.len() as u64);
    let writing = Mutex::new(());
    missing.par_iter().try_for_each(|((part, _, without), seed)| {
        let rows = one(settings, material, part, *without, *seed)?;
        let _guard = writing.lock();
        rows::append(&folder.file("rows.jsonl"), &rows)?;
        progress.inc(1);
        Ok(())
    })
}

fn key(settings: &Settings, material: &Material<'_>, part: &str, answer: &str, seed: u64) -> RunKey {
    RunKey {
        dataset: material.dataset.name.clone(),
        split: settings.split.name(),
        encoder: material.encoder.clone(),
        recipe: "default".into(),
        method: format!("{part}: {answer}"),
        seed,
    }
}

fn one(settings: &Settings, material: &Material<'_>, part: &str, without: Without, seed: u64) -> Result<Vec<Row>> {
    let (params, cases) = (Params::default(), &material.prepared);
    let split = settings.divide(material.dataset, seed);
    let fixed = State::fixed(without);
    let mut last = fixed.clone();
    let mut seen = |_, state: &State| {
        last = state.clone();
        Ok(())
    };
    let critic = |n: usize| settings.critic(n, split.train.len());
    recipe::learn(cases, &split, &critic, seed, &[], without, &mut seen)?;
    let row = |(answer, how, learned): &(&str, Answer, bool)| {
        let state = if *learned { &last } else { &fixed };
        let (scores, calls) = recipe::test(state, &params, *how, cases, &split.test, settings.quality, seed)?;
        let n_train = if *learned { split.train.len() } else { 0 };
        Ok(row_of(settings, key(settings, material, part, answer, seed), &params, (n_train, 0.0), &scores, calls))
    };
    let mut rows = ANSWERS.iter().map(row).collect::<Result<Vec<Row>>>()?;
    if !last.served.is_empty() {
        let served = key(settings, material, part, SERVED, seed);
        rows.push(row_of(settings, served, &params, (0, 0.0), &last.served, 0.0));
    }
    Ok(rows)
}

/// Writes README and summary of the folder from its rows.
///
/// # Errors
/// Those of the disk.
pub fn write_report(settings: &Settings, folder: &ResultFolder, provenance: &Provenance) -> Result<()> {
    folder.tidy()?;
    let rows = folder.rows()?;
    let mut text = format!(
        "# What each part of the `default` recipe adds\n\nRecall@5 (all gold) in percent over {} seeds, split `{}`, critic {:.0}/{:.0}; \
         in brackets the paired difference from the whole recipe with its 95 % interval. `while learning` is what was \
         served for the training questions, on the way; `3 calls` reads test labels through the simulated critic.\n",
        settings.seed_list().len(),
        settings.split.name(),
        100.0 * settings.quality.precision,
        100.0 * settings.quality.recall,
    );
    let mut groups: Vec<(&str, &str)> =
        rows.iter().map(|row| (row.key.dataset.as_str(), row.key.encoder.as_str())).collect();
    groups.sort_unstable();
    groups.dedup();
    for (dataset, encoder) in groups {
        let _ = write!(text, "\n## {dataset}, {encoder}\n\n{}", table(&rows, dataset, encoder));
    }
    std::fs::write(folder.file("summary.md"), &text)?;
    let readme = format!(
        "# Ablation of the `default` recipe\n\n{}- seeds: {:?}\n\nFiles: `summary.md` (tables), `rows.jsonl` (one line a run).\n",
        provenance.markdown_after(&folder.readme()),
        settings.seed_list()
    );
    Ok(std::fs::write(folder.file("README.md"), readme)?)
}

fn table(rows: &[Row], dataset: &str, encoder: &str) -> String {
    let mut text =
        "| left out | what that is | static | while learning | learned | 3 calls |\n|---|---|---|---|---|---|\n"
            .to_owned();
    let of = |part: &str, answer: &str| {
        let name = format!("{part}: {answer}");
        let same = |row: &&Row| row.key.dataset == dataset && row.key.encoder == encoder && row.key.method == name;
        let mut found: Vec<&Row> = rows.iter().filter(same).collect();
        found.sort_by_key(|row| row.key.seed);
        found
    };
    for (part, meaning, _) in PARTS {
        let cell = |answer: &str| {
            let (ours, whole) = (of(part, answer), of("whole", answer));
            if ours.is_empty() {
                return "-".to_owned();
            }
            let value = format!("{:.1}", summary::spread(&ours, |row| row.scores.recall_at_5).mean);
            match summary::gain(&ours, &whole).filter(|_| part != "whole") {
                Some(difference) => format!("{value} ({})", summary::points(difference)),
                None => value,
            }
        };
        let [fixed, learned, calls] = ANSWERS.map(|(answer, _, _)| cell(answer));
        let _ = writeln!(text, "| {part} | {meaning} | {fixed} | {} | {learned} | {calls} |", cell(SERVED));
    }
    text
}

#[cfg(test)]
mod tests {
    use earmark::recall::FEATURE_NAMES;

    use super::*;

    #[test]
    fn the_ranges_are_those_of_the_feature_table() {
        let names = |part: &str| -> Vec<&str> {
            let (_, _, without) = PARTS.iter().find(|(name, _, _)| *name == part).unwrap();
            without.features.iter().flat_map(|range| FEATURE_NAMES[range.clone()].iter().copied()).collect()
        };
        assert_eq!((names("no-extra-arms")[0], names("no-extra-arms")[4]), ("meaning", "closest in words"));
        assert_eq!(names("no-turns-beside"), ["turn beside: meaning", "words in the turns around"]);
        assert_eq!(names("no-place"), ["opens its session"]);
        assert_eq!((names("no-authors")[0], names("no-authors")[3]), ("author named", "said by an assistant"));
        assert_eq!(
            (names("no-times-and-numbers")[0], names("no-times-and-numbers")[4]),
            ("a time where one is asked for", "a number where one is asked for")
        );
        assert_eq!(names("no-form"), ["length", "is a question", "has a question"]);
        assert_eq!(names("no-past")[0], "useful for similar questions");
    }
}
