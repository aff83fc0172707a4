//! Tables over seeds, from rows alone.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::figure::Spread;
use crate::rows::{CurvePoint, Row, digits_to_values};
use crate::stats::{self, Interval};

/// What a paper reports for a method, in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reported {
    /// The method.
    pub method: &'static str,
    /// Recall@5.
    pub recall_at_5: f64,
    /// Hit@5, where it is reported.
    pub hit_at_5: Option<f64>,
}

/// Methods in the order of their first row in `order`, with their rows of one encoder.
pub fn by_method<'a>(rows: &'a [Row], encoder: &str, order: &[&'a str]) -> Vec<(&'a str, Vec<&'a Row>)> {
    let of = |method: &str| rows.iter().filter(|row| row.key.encoder == encoder && row.key.method == method).collect();
    order.iter().map(|method| (*method, of(method))).filter(|(_, rows): &(_, Vec<_>)| !rows.is_empty()).collect()
}

/// Encoders in alphabetical order.
pub fn encoders(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| row.key.encoder.clone()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Mean and standard deviation over rows, in percent.
pub fn spread(rows: &[&Row], metric: fn(&Row) -> f64) -> Spread {
    let values: Vec<f64> = rows.iter().map(|row| 100.0 * metric(row)).collect();
    Spread { mean: stats::mean(&values), std: stats::std(&values) }
}

/// Recall@5 of a curve at one number of training questions, in percent, over seeds.
pub fn curve_point(curve: &[CurvePoint], encoder: &str, method: &str, n_train: usize) -> Spread {
    let at =
        |point: &&CurvePoint| point.key.encoder == encoder && point.key.method == method && point.n_train == n_train;
    let values: Vec<f64> = curve.iter().filter(at).map(|point| 100.0 * point.scores.recall_at_5).collect();
    Spread { mean: stats::mean(&values), std: stats::std(&values) }
}

/// Difference in Recall@5 between two methods on the same questions and seeds, in points, with its 95 % interval.
/// `None` unless both have the same seeds.
pub fn gain(ours: &[&Row], base: &[&Row]) -> Option<Interval> {
    let seeds = |rows: &[&Row]| rows.iter().map(|row| row.key.seed).collect::<Vec<_>>();
    let values =
        |rows: &[&Row]| rows.iter().flat_map(|row| digits_to_values(&row.recall_by_question)).collect::<Vec<_>>();
    let (ours_values, base_values) = (values(ours), values(base));
    if seeds(ours) != seeds(base) || ours_values.len() != base_values.len() {
        return None;
    }
    let Interval { mean, low, high } = stats::paired_bootstrap(&ours_values, &base_values, 0);
    Some(Interval { mean: 100.0 * mean, low: 100.0 * low, high: 100.0 * high })
}

/// The table of one encoder, beside what a paper reports. A difference of gains is ours against `base` less the paper's.
pub fn table(rows: &[Row], encoder: &str, order: &[&str], base: &str, paper: &[Reported]) -> String {
    let methods = by_method(rows, encoder, order);
    let base_rows = methods.iter().find(|(name, _)| *name == base).map(|(_, rows)| rows.clone()).unwrap_or_default();
    let mut text = format!(
        "| method | Recall@5 | against {base} [95 %] | paper Recall@5 | paper against {base} | difference of gains | Hit@5 | paper Hit@5 | fraction@5 | nDCG@5 | critic calls per query |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n"
    );
    for (name, rows) in methods {
        let reported = paper.iter().find(|line| line.method == name);
        let cell = |metric: fn(&Row) -> f64| percent(spread(&rows, metric));
        let gain = gain(&rows, &base_rows).filter(|_| name != base);
        let paper_gain = paper_gain(paper, name, base);
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.2} |",
            cell(|row| row.scores.recall_at_5),
            gain.map_or_else(|| "-".into(), points),
            optional(reported.map(|line| line.recall_at_5)),
            signed(paper_gain),
            signed(gain.zip(paper_gain).map(|(ours, theirs)| ours.mean - theirs)),
            cell(|row| row.scores.hit_at_5),
            optional(reported.and_then(|line| line.hit_at_5)),
            cell(|row| row.scores.recall_fraction_at_5),
            cell(|row| row.scores.ndcg_at_5),
            stats::mean(&rows.iter().map(|row| row.critic_calls_per_query).collect::<Vec<_>>()),
        );
    }
    text
}

/// What a paper reports for `method` less what it reports for `base`; `None` for `base` itself.
pub fn paper_gain(paper: &[Reported], method: &str, base: &str) -> Option<f64> {
    let of = |name: &str| paper.iter().find(|line| line.method == name).map(|line| line.recall_at_5);
    if method == base { None } else { Some(of(method)? - of(base)?) }
}

/// `mean ± std`.
pub fn percent(spread: Spread) -> String {
    format!("{:.1} ± {:.1}", spread.mean, spread.std)
}

/// `mean [low, high]`, with signs.
pub fn points(interval: Interval) -> String {
    format!("{:+.1} [{:+.1}, {:+.1}]", interval.mean, interval.low, interval.high)
}

/// With a sign, or a dash.
pub fn signed(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:+.1}"))
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.2}"))
}
