//! What a result folder of an experiment says.

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::Result;

use super::catalogue::{self, Experiment, Part};
use super::reported;
use super::{Options, efficiency, geometry, latency, matrix, stores};
use crate::experiments::plan::ResultFolder;
use crate::experiments::summary;
use crate::figure::{self, Bar, Bars, Curve, Curves, Spread};
use crate::report::Provenance;
use crate::rows::{CurvePoint, Row};
use crate::stats;

/// What was run with one encoder on one set.
struct Group {
    dataset: String,
    encoder: String,
    rows: Vec<Row>,
    curve: Vec<CurvePoint>,
}

impl Group {
    fn file(&self, what: &str) -> String {
        format!("{what}-{}-{}.svg", self.dataset, self.encoder)
    }

    fn n(&self) -> usize {
        self.rows.first().map_or(0, |row| row.n)
    }

    fn of(&self, method: &str) -> Vec<&Row> {
        self.rows.iter().filter(|row| row.key.method == method).collect()
    }
}

/// Writes summary.md and the figures from what is in `folder`, and a paragraph of README.md for `ran`, the command
/// that has just run something.
///
/// # Errors
/// If the folder cannot be read or written.
pub fn write(
    experiment: &Experiment,
    options: &Options,
    folder: &ResultFolder,
    ran: Option<&Provenance>,
) -> Result<()> {
    folder.tidy()?;
    let (rows, curve) = (folder.rows()?, folder.curve()?);
    let names: Vec<String> = (experiment.methods)(&options.params).into_iter().map(|method| method.name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut text = opening(experiment);
    for group in groups(&rows, &curve) {
        text.push_str(&section(experiment, folder, &group, &names)?);
    }
    text.push_str(&closing(experiment, folder, &rows)?);
    std::fs::write(folder.file("summary.md"), text)?;
    match ran {
        Some(provenance) => write_readme(experiment, options, folder, FILES, provenance),
        None => Ok(()),
    }
}

fn opening(experiment: &Experiment) -> String {
    let mut text = format!("# {}, recipe `paper`\n\n{}\n", experiment.title, experiment.shows);
    if experiment.part != Part::Geometry {
        text.push_str(
            "\nRecall@5 counts a question if *all* its gold memories are among the five; Hit@5 if any is. Percent, mean ± standard \
             deviation over seeds; gains are in points with a 95 % bootstrap interval over questions and seeds. \
             Methods with `explorer-only` or `ear-explorer` in their name ask the simulated critic about the *test* question, which reads its labels; \
             the other methods see no label of a test question.\n\nThe paper's values are with Contriever: compare gains, not levels.\n",
        );
    }
    text
}

/// What was run, by set and encoder.
fn groups(rows: &[Row], curve: &[CurvePoint]) -> Vec<Group> {
    let keys: BTreeSet<(&str, &str)> =
        rows.iter().map(|row| (row.key.dataset.as_str(), row.key.encoder.as_str())).collect();
    let group = |(dataset, encoder): (&str, &str)| Group {
        dataset: dataset.to_owned(),
        encoder: encoder.to_owned(),
        rows: rows.iter().filter(|r| r.key.dataset == dataset && r.key.encoder == encoder).cloned().collect(),
        curve: curve.iter().filter(|p| p.key.dataset == dataset && p.key.encoder == encoder).cloned().collect(),
    };
    keys.into_iter().map(group).collect()
}

fn section(experiment: &Experiment, folder: &ResultFolder, group: &Group, names: &[&str]) -> Result<String> {
    let Group { dataset, encoder, rows, .. } = group;
    let trained = rows.iter().map(|row| row.n_train).max().unwrap_or(0);
    let ceiling = summary::spread(&rows.iter().collect::<Vec<_>>(), |row| row.pool_ceiling).mean;
    let seeds: BTreeSet<u64> = rows.iter().map(|row| row.key.seed).collect();
    let rate = rows.first().map_or(0.0, |row| row.params.learning_rate);
    let mut text = format!(
        "\n## {dataset}, {encoder}\n\n{trained} questions to learn from, n = {} to test, seeds: {}, learning rate {rate}. \
         A perfect order of the candidates would reach {ceiling:.1}.\n\n",
        group.n(),
        seeds.len()
    );
    let paper = reported::of(experiment.name, dataset);
    if experiment.part == Part::Choices {
        text.push_str(&matrix::choices(rows, encoder, paper));
        text.push('\n');
    }
    text.push_str(&summary::table(rows, encoder, names, "only-retriever", paper));
    if matches!(experiment.part, Part::Bars | Part::BarsAndQueries | Part::Latency | Part::Sizes | Part::Reranker) {
        draw_bars(experiment, folder, group, names)?;
        let _ = write!(text, "\n![methods]({})\n", group.file("methods"));
    }
    if matches!(experiment.part, Part::Queries | Part::BarsAndQueries | Part::Calls) {
        let _ = write!(text, "\n{}", efficiency::table(experiment.part, &group.curve, rows, names));
        let _ = write!(text, "\n{}", efficiency::paper(experiment.part));
        for (family, names) in families(names) {
            draw_curves(experiment, folder, group, family, &names)?;
            let _ = write!(text, "\n![curves]({})\n", group.file(family));
        }
    }
    if experiment.part == Part::Latency {
        text.push_str(&latency::section(&latency::read(folder)?, dataset, encoder));
    }
    Ok(text)
}

/// What is said of several sets or encoders together.
fn closing(experiment: &Experiment, folder: &ResultFolder, rows: &[Row]) -> Result<String> {
    let mut text = String::new();
    match experiment.part {
        Part::Sizes => {
            let datasets: BTreeSet<&str> = rows.iter().map(|row| row.key.dataset.as_str()).collect();
            for dataset in datasets {
                let of: Vec<Row> = rows.iter().filter(|row| row.key.dataset == dataset).cloned().collect();
                matrix::draw_sizes(folder, &of, dataset)?;
                draw_size_curves(folder, rows, &folder.curve()?, dataset)?;
                let table = matrix::sizes(&of, dataset);
                let _ = write!(
                    text,
                    "\n## {dataset}: gains by encoder\n\n{table}\n![sizes](sizes-{dataset}.svg)\n![curves](size-curves-{dataset}.svg)\n"
                );
            }
        }
        Part::Stores => {
            for encoder in summary::encoders(rows) {
                stores::draw(folder, rows, &encoder)?;
                let _ = write!(text, "\n## {encoder}: the two stores\n{}", stores::section(rows, &encoder));
            }
        }
        Part::Geometry => {
            let deltas = geometry::read(folder)?;
            let encoders: BTreeSet<&str> = deltas.iter().map(|delta| delta.encoder.as_str()).collect();
            for encoder in encoders {
                geometry::draw(folder, &deltas, encoder)?;
                let _ = write!(text, "\n## {encoder}\n\n{}", geometry::section(&deltas, encoder)?);
            }
        }
        _ => {}
    }
    Ok(text)
}

fn draw_bars(experiment: &Experiment, folder: &ResultFolder, group: &Group, names: &[&str]) -> Result<()> {
    let paper = reported::of(experiment.name, &group.dataset);
    let methods = (experiment.methods)(&group.rows[0].params);
    let marked = |name: &str| methods.iter().any(|method| method.name == name && catalogue::reads_labels(method));
    let bar = |(name, rows): (&str, Vec<&Row>)| Bar {
        name: name.to_owned(),
        value: summary::spread(&rows, |row| row.scores.recall_at_5),
        paper: paper.iter().find(|line| line.method == name).map(|line| line.recall_at_5),
        marked: marked(name),
    };
    let bars: Vec<Bar> = summary::by_method(&group.rows, &group.encoder, names).into_iter().map(bar).collect();
    let known = bars.iter().any(|bar| bar.paper.is_some());
    let labels = bars.iter().any(|bar| bar.marked);
    let figure = Bars {
        title: format!(
            "{}: {}, {}, n = {} test questions a seed",
            heading(experiment),
            group.dataset,
            group.encoder,
            group.n()
        ),
        axis: "Recall@5 (all gold memories in the top five), %".into(),
        bars,
        groups: ["no critic at test".into(), if labels { "critic reads test labels".into() } else { String::new() }],
        paper: if known { "paper, Contriever".into() } else { String::new() },
    };
    figure::draw_bars(&folder.file(&group.file("methods")), &figure)
}

/// The paper's number of the table or figure.
fn heading(experiment: &Experiment) -> &str {
    experiment.title.split(':').next().unwrap_or(experiment.title)
}

/// Methods that share a figure, and the start of its name: more than six curves are too many for one.
fn families<'a>(names: &[&'a str]) -> Vec<(&'static str, Vec<&'a str>)> {
    if names.len() <= 7 {
        return vec![("curve", names.to_vec())];
    }
    let (ear, others): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| name.starts_with("ear"));
    vec![("curve-ear", ear), ("curve-rl", others)]
}

fn draw_curves(
    experiment: &Experiment,
    folder: &ResultFolder,
    group: &Group,
    family: &str,
    names: &[&str],
) -> Result<()> {
    let calls = experiment.part == Part::Calls;
    let paper = reported::of(experiment.name, &group.dataset);
    let curve = |name: &&str| Curve {
        name: (*name).to_owned(),
        points: points(&group.curve, name, efficiency::unit(experiment.part, &group.rows, name)),
        paper: paper.iter().find(|line| line.method == *name).map(|line| line.recall_at_5),
    };
    let curves: Vec<Curve> = names.iter().map(curve).filter(|curve| !curve.points.is_empty()).collect();
    let level = summary::spread(&group.of("only-retriever"), |row| row.scores.recall_at_5).mean;
    let known = curves.iter().any(|curve| curve.paper.is_some());
    let figure = Curves {
        title: format!(
            "{}: {}, {}, the adapter alone, n = {} test questions a seed",
            heading(experiment),
            group.dataset,
            group.encoder,
            group.n()
        ),
        x_axis: if calls { "critic calls" } else { "training queries" }.into(),
        y_axis: "Recall@5 (all gold), %".into(),
        places: Vec::new(),
        curves,
        level: Some(("only-retriever".into(), level)),
        paper: if known { "paper at the end".into() } else { String::new() },
    };
    figure::draw_curves(&folder.file(&group.file(family)), &figure)
}

/// EAR's adapter of every encoder by training queries: Fig. 7.
fn draw_size_curves(folder: &ResultFolder, rows: &[Row], curve: &[CurvePoint], dataset: &str) -> Result<()> {
    let of: Vec<Group> = groups(rows, curve).into_iter().filter(|group| group.dataset == dataset).collect();
    let dimension = |group: &Group| group.rows.first().map_or(0, |row| row.dimension);
    let curve = |group: &Group| Curve {
        name: format!("{} ({})", group.encoder, dimension(group)),
        points: points(&group.curve, "ear", 1),
        paper: None,
    };
    let n = of.first().map_or(0, Group::n);
    let figure = Curves {
        title: format!("Fig. 7: {dataset}, EAR's adapter alone by encoder (dimension), n = {n} test questions a seed"),
        x_axis: "training queries".into(),
        y_axis: "Recall@5 (all gold), %".into(),
        places: Vec::new(),
        curves: of.iter().map(curve).collect(),
        level: None,
        paper: String::new(),
    };
    figure::draw_curves(&folder.file(&format!("size-curves-{dataset}.svg")), &figure)
}

/// Mean and spread over the seeds, at the places that every seed has.
fn points(curve: &[CurvePoint], method: &str, unit: usize) -> Vec<(f64, Spread)> {
    let of: Vec<&CurvePoint> = curve.iter().filter(|point| point.key.method == method).collect();
    let places: BTreeSet<usize> = of.iter().map(|point| point.n_train).collect();
    let values = |place: &usize| {
        let at = of.iter().filter(|point| point.n_train == *place);
        at.map(|point| 100.0 * point.scores.recall_at_5).collect::<Vec<f64>>()
    };
    let seeds = places.iter().map(|place| values(place).len()).max().unwrap_or(0);
    let point = |place: &usize| {
        let values = values(place);
        let spread = Spread { mean: stats::mean(&values), std: stats::std(&values) };
        (values.len() == seeds).then_some(((place * unit) as f64, spread))
    };
    places.iter().filter_map(point).collect()
}

const FILES: &str = "`summary.md` (tables), `rows.jsonl` (one line a run with all parameters; `recall_by_question` has \
    one digit a test question), `curve.jsonl` (the adapter alone after `n_train` queries), figures. Rows of the same \
    settings that an experiment earlier in the same command made are taken from it.";

/// The head once, then a paragraph for each command that ran something. `files` says what is in the folder.
pub(super) fn write_readme(
    experiment: &Experiment,
    options: &Options,
    folder: &ResultFolder,
    files: &str,
    provenance: &Provenance,
) -> Result<()> {
    let mut text = folder.readme();
    if text.is_empty() {
        text = format!("# {}, recipe `paper`\n\n{}\n\nFiles: {files}\n", experiment.title, experiment.shows);
    }
    let _ = write!(
        text,
        "\n## Run\n\n{}- seeds: {:?}\n- split: {}\n",
        provenance.markdown(),
        options.seed_list(),
        options.split.name()
    );
    Ok(std::fs::write(folder.file("README.md"), text)?)
}
