//! LoCoMo: the retrieval columns of Tables 2 and 3, and the learning curve of Fig. 3, with other encoders.

use std::fmt::Write;

use anyhow::{Context, Result};
use earmark::Params;
use indicatif::ProgressBar;

use super::plan::{Plan, ResultFolder};
use super::select::{self, Validation};
use super::summary::{self, Reported};
use crate::candidates::{self, Encode};
use crate::data::Dataset;
use crate::figure::{self, Bar, Bars, Curve, Curves};
use crate::methods::{self, Inference, Method};
use crate::report::Provenance;
use crate::rows::Row;
use crate::split::SplitKind;
use crate::text::MemoryText;

/// Where the learning curve is measured, besides the end.
pub const CHECKPOINTS: [usize; 7] = [0, 20, 40, 80, 160, 320, 640];

/// Training questions of a quick look.
const QUICK: usize = 160;

/// What the paper reports on LoCoMo with Contriever (Tables 2 and 3).
pub const PAPER: [Reported; 7] = [
    Reported { method: "only-retriever", recall_at_5: 42.60, hit_at_5: Some(52.01) },
    Reported { method: "rl-update", recall_at_5: 25.97, hit_at_5: Some(34.31) },
    Reported { method: "explorer-in-training", recall_at_5: 39.99, hit_at_5: None },
    Reported { method: "buffer-in-training", recall_at_5: 29.54, hit_at_5: None },
    Reported { method: "ear", recall_at_5: 43.56, hit_at_5: None },
    Reported { method: "explorer-only", recall_at_5: 41.20, hit_at_5: None },
    Reported { method: "ear-explorer", recall_at_5: 55.06, hit_at_5: Some(70.83) },
];

/// What can be set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Parameters of EAR; the other methods are derived from them.
    pub params: Params,
    /// Learning rates to choose from on the training questions; one is taken as it is.
    pub learning_rates: Vec<f32>,
    /// How many seeds, from 1 on.
    pub seeds: u64,
    /// How questions are divided.
    pub split: SplitKind,
    /// What text of a memory is encoded.
    pub memory_text: MemoryText,
    /// One seed and few training questions.
    pub quick: bool,
}

impl Settings {
    /// What is run, with one learning rate.
    pub fn plan(&self, learning_rate: f32) -> Plan {
        Plan {
            split: self.split,
            recipe: "paper".into(),
            methods: methods::paper(&Params { learning_rate, ..self.params }),
            seeds: self.seed_list(),
            memory_text: self.memory_text,
            checkpoints: CHECKPOINTS.to_vec(),
            train_limit: self.quick.then_some(QUICK),
        }
    }

    fn seed_list(&self) -> Vec<u64> {
        (1..=if self.quick { 1 } else { self.seeds }).collect()
    }

    fn chosen_rate(&self, folder: &ResultFolder, encoder: &str) -> Result<Option<f32>> {
        Ok(select::choose(&select::read(folder)?, encoder, &self.learning_rates, &self.seed_list()))
    }
}

/// Runs what `folder` lacks for one encoder; returns whether there was anything. `encode` is called only then.
///
/// # Errors
/// Those of `encode`, or if the folder cannot be used.
pub fn run(
    settings: &Settings,
    folder: &ResultFolder,
    dataset: &Dataset,
    encoder: &str,
    encode: &mut Encode<'_>,
    progress: &ProgressBar,
) -> Result<bool> {
    let chosen = settings.chosen_rate(folder, encoder)?;
    if let Some(rate) = chosen
        && !settings.plan(rate).is_missing(folder, dataset, encoder)?
    {
        return Ok(false);
    }
    let Settings { params, learning_rates, memory_text, .. } = settings;
    let cases = candidates::find(dataset, *memory_text, params.candidates, encode)?;
    if chosen.is_none() {
        let plan = settings.plan(params.learning_rate);
        select::validate(&plan, params, learning_rates, folder, dataset, encoder, &cases)?;
    }
    let rate = settings.chosen_rate(folder, encoder)?.context("no learning rate was given")?;
    settings.plan(rate).run(folder, dataset, encoder, &cases, progress)?;
    Ok(true)
}

/// Writes summary.md and the figures from the rows in `folder`, and README.md unless nothing was run (then it says
/// already where the rows come from).
///
/// # Errors
/// If the folder cannot be read or written.
pub fn write_report(
    settings: &Settings,
    folder: &ResultFolder,
    dropped_questions: usize,
    provenance: Option<&Provenance>,
) -> Result<()> {
    folder.tidy()?;
    let rows = folder.rows()?;
    std::fs::write(folder.file("summary.md"), summary(settings, &rows, dropped_questions))?;
    if let Some(provenance) = provenance {
        let readme = readme(settings, &rows, &select::read(folder)?, provenance);
        std::fs::write(folder.file("README.md"), readme)?;
    }
    for encoder in summary::encoders(&rows) {
        draw_methods(folder, &rows, &encoder)?;
        draw_curve(folder, &rows, &encoder)?;
    }
    Ok(())
}

fn names() -> Vec<&'static str> {
    PAPER.iter().map(|line| line.method).collect()
}

fn summary(settings: &Settings, rows: &[Row], dropped_questions: usize) -> String {
    let mut text = format!(
        "# LoCoMo, recipe `paper`\n\n\
         Recall@5 counts a question if *all* its gold turns are among the five; Hit@5 if any is; fraction@5 is the share of \
         its gold turns (what LoCoMo's authors call recall). Percent, mean ± standard deviation over {} seeds. \
         {dropped_questions} questions without a gold turn are left out.\n\n\
         **`explorer-only` and `ear-explorer` read test labels**: at test they ask a simulated critic (precision 88, recall 86) \
         that knows the gold turns of the test question. The other rows see no label of a test question.\n\n\
         The paper's values are with Contriever, which is another encoder: compare the pattern, not the digits.\n",
        settings.seed_list().len()
    );
    for encoder in summary::encoders(rows) {
        let of: Vec<&Row> = rows.iter().filter(|row| row.key.encoder == encoder).collect();
        let n = of.first().map_or(0, |row| row.n);
        let trained = of.iter().map(|row| row.n_train).max().unwrap_or(0);
        let ceiling = summary::spread(&of, |row| row.pool_ceiling).mean;
        let _ = write!(
            text,
            "\n## {encoder}\n\n{trained} questions to learn from, n = {n} to test. \
             A perfect order of the {} candidates would reach {ceiling:.1}.\n\n{}",
            settings.params.candidates,
            summary::table(rows, &encoder, &names(), "only-retriever", &PAPER)
        );
        let _ = write!(text, "\n![methods](methods-{encoder}.svg)\n![learning curve](curve-{encoder}.svg)\n");
    }
    text
}

fn readme(settings: &Settings, rows: &[Row], validations: &[Validation], provenance: &Provenance) -> String {
    let mut text = format!(
        "# LoCoMo, recipe `paper`\n\n\
         The retrieval columns of Tables 2 and 3 of the paper, and the learning curve of its Fig. 3, on LoCoMo.\n\n\
         {}- seeds: {:?}\n- split: {}\n- memory text: {}\n- parameters: in every line of `rows.jsonl`\n\n\
         Files: `summary.md` (tables), `rows.jsonl` (one line a run; `recall_by_question` has one digit a test question), \
         `curve.jsonl` (the adapter alone after `n_train` questions), figures.\n\n## What it shows\n\n",
        provenance.markdown(),
        settings.seed_list(),
        settings.split.name(),
        settings.memory_text.name(),
    );
    for encoder in summary::encoders(rows) {
        text.push_str(&finding(rows, &encoder));
        text.push_str(&selection(settings, validations, &encoder));
    }
    text
}

/// How the learning rate was chosen, if there was a choice.
fn selection(settings: &Settings, validations: &[Validation], encoder: &str) -> String {
    if settings.learning_rates.len() < 2 {
        return String::new();
    }
    let value = |rate: &f32| select::mean(validations, encoder, *rate, &settings.seed_list()).unwrap_or(0.0);
    let tried = settings.learning_rates.iter().map(|rate| format!("{rate}: {:.1}", 100.0 * value(rate)));
    let tried = tried.collect::<Vec<_>>().join(", ");
    format!(
        "  The rate was chosen by `ear`, adapter alone, on a fifth of the *training* questions (Recall@5 there: {tried}).\n"
    )
}

/// The four numbers that the paper's argument rests on, in words.
fn finding(rows: &[Row], encoder: &str) -> String {
    let methods = summary::by_method(rows, encoder, &["only-retriever", "rl-update", "ear", "ear-explorer"]);
    let mean = |rows: &[&Row]| summary::spread(rows, |row| row.scores.recall_at_5).mean;
    let parts: Vec<String> = methods.iter().map(|(name, rows)| format!("{name} {:.1}", mean(rows))).collect();
    let rate = rows.iter().find(|row| row.key.encoder == encoder).map_or(0.0, |row| row.params.learning_rate);
    format!("- {encoder}, learning rate {rate}, Recall@5: {}.\n", parts.join(", "))
}

fn draw_methods(folder: &ResultFolder, rows: &[Row], encoder: &str) -> Result<()> {
    let methods = methods::paper(&Params::paper());
    let reads_labels =
        |name: &str| methods.iter().any(|m: &Method| m.name == name && m.inference == Inference::Explorer);
    let bar = |(name, rows): (&str, Vec<&Row>)| Bar {
        name: name.to_owned(),
        value: summary::spread(&rows, |row| row.scores.recall_at_5),
        paper: PAPER.iter().find(|line| line.method == name).map(|line| line.recall_at_5),
        marked: reads_labels(name),
    };
    let n = rows.iter().find(|row| row.key.encoder == encoder).map_or(0, |row| row.n);
    let figure = Bars {
        title: format!("LoCoMo, {encoder}: Recall@5 on n = {n} test questions"),
        axis: "Recall@5 (all gold turns in the top five), %".into(),
        bars: summary::by_method(rows, encoder, &names()).into_iter().map(bar).collect(),
        groups: ["no critic at test".into(), "critic reads test labels".into()],
        paper: "paper, Contriever".into(),
    };
    figure::draw_bars(&folder.file(&format!("methods-{encoder}.svg")), &figure)
}

fn draw_curve(folder: &ResultFolder, rows: &[Row], encoder: &str) -> Result<()> {
    let points = folder.curve()?;
    let mut places: Vec<usize> =
        points.iter().filter(|point| point.key.encoder == encoder).map(|point| point.n_train).collect();
    places.sort_unstable();
    places.dedup();
    let trained: Vec<&str> =
        names().into_iter().filter(|name| points.iter().any(|point| point.key.method == *name)).collect();
    let curve = |name: &str| Curve {
        name: name.to_owned(),
        points: figure::in_places(places.iter().map(|n| summary::curve_point(&points, encoder, name, *n)).collect()),
        paper: PAPER.iter().find(|line| line.method == name).map(|line| line.recall_at_5),
    };
    let untrained: Vec<&Row> = rows.iter().filter(|row| is_of(row, encoder, "only-retriever")).collect();
    let level = summary::spread(&untrained, |row| row.scores.recall_at_5).mean;
    let n = untrained.first().map_or(0, |row| row.n);
    let figure = Curves {
        title: format!("LoCoMo, {encoder}: the adapter alone, n = {n} test questions"),
        x_axis: "training questions seen".into(),
        y_axis: "Recall@5 (all gold), %".into(),
        places: places.iter().map(usize::to_string).collect(),
        curves: trained.into_iter().map(curve).collect(),
        level: Some(("only-retriever".into(), level)),
        paper: "paper at the end, Contriever".into(),
    };
    figure::draw_curves(&folder.file(&format!("curve-{encoder}.svg")), &figure)
}

fn is_of(row: &Row, encoder: &str, method: &str) -> bool {
    row.key.encoder == encoder && row.key.method == method
}
