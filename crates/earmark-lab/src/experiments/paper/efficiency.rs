//! How much feedback it takes to surpass the static retriever for good, and how deep the dip before is (Fig. 3, 4).

use std::collections::BTreeMap;
use std::fmt::Write;

use super::catalogue::Part;
use crate::figure::Spread;
use crate::rows::{CurvePoint, Row};
use crate::stats;

/// What a curve costs before it is worth it.
#[derive(Debug, Clone, PartialEq)]
pub struct Efficiency {
    /// The first point from which on the mean over seeds is above the retriever at every later point.
    pub surpasses: Option<usize>,
    /// The same of each seed alone, in their order.
    pub by_seed: Vec<Option<usize>>,
    /// Where the mean over seeds is lowest against the retriever, and how low there, in points.
    pub dip: (usize, Spread),
    /// Against the retriever at the end, in points.
    pub end: Spread,
}

/// How far a curve is above the retriever, in points: for each place of the x axis one value a seed.
pub type Gains = BTreeMap<usize, Vec<f64>>;

/// The gains of a method over the method `base`, which does not learn, of the same seed. Places that a seed lacks are
/// left out.
pub fn gains(curve: &[CurvePoint], rows: &[Row], method: &str, base: &str, unit: usize) -> Gains {
    let mut gains = Gains::new();
    let level = |seed: u64| rows.iter().find(|row| row.key.method == base && row.key.seed == seed);
    for point in curve.iter().filter(|point| point.key.method == method) {
        if let Some(level) = level(point.key.seed) {
            let gain = 100.0 * (point.scores.recall_at_5 - level.scores.recall_at_5);
            gains.entry(point.n_train * unit).or_default().push(gain);
        }
    }
    let seeds = gains.values().map(Vec::len).max().unwrap_or(0);
    gains.retain(|_, values| values.len() == seeds);
    gains
}

impl Efficiency {
    /// `None` without a point.
    pub fn of(gains: &Gains) -> Option<Efficiency> {
        let means: Vec<(usize, f64)> = gains.iter().map(|(place, values)| (*place, stats::mean(values))).collect();
        let seeds = gains.values().next()?.len();
        let of_seed = |seed: usize| for_good(&gains.iter().map(|(place, v)| (*place, v[seed])).collect::<Vec<_>>());
        let lowest = means.iter().min_by(|a, b| a.1.total_cmp(&b.1))?.0;
        let spread = |place: &usize| Spread { mean: stats::mean(&gains[place]), std: stats::std(&gains[place]) };
        Some(Efficiency {
            surpasses: for_good(&means),
            by_seed: (0..seeds).map(of_seed).collect(),
            dip: (lowest, spread(&lowest)),
            end: spread(gains.keys().next_back()?),
        })
    }
}

/// The first place from which on all values are above 0.
fn for_good(values: &[(usize, f64)]) -> Option<usize> {
    let above = values.iter().rev().take_while(|(_, value)| *value > 0.0);
    above.last().map(|(place, _)| *place)
}

/// Critic calls a query, or 1 where the unit is queries.
pub fn unit(part: Part, rows: &[Row], method: &str) -> usize {
    let rounds = rows.iter().find(|row| row.key.method == method).map_or(1, |row| row.params.rounds);
    if part == Part::Calls { rounds } else { 1 }
}

/// A table of all curves of one set and one encoder.
pub fn table(part: Part, curve: &[CurvePoint], rows: &[Row], methods: &[&str]) -> String {
    let what = if part == Part::Calls { "critic calls" } else { "queries" };
    let mut text = format!(
        "| method | surpasses only-retriever for good after ({what}) | seed by seed | lowest point, against only-retriever | at the end |\n|---|---|---|---|---|\n"
    );
    for method in methods {
        let gains = gains(curve, rows, method, "only-retriever", unit(part, rows, method));
        let Some(found) = Efficiency::of(&gains) else { continue };
        let by_seed: Vec<String> = found.by_seed.iter().map(|place| never(*place)).collect();
        let (place, dip) = found.dip;
        let _ = writeln!(
            text,
            "| {method} | {} | {} | {} after {place} | {} |",
            never(found.surpasses),
            by_seed.join(", "),
            signed(dip),
            signed(found.end)
        );
    }
    text
}

/// One curve against its static order, place by place.
pub fn by_place(gains: &Gains) -> String {
    let Some(found) = Efficiency::of(gains) else { return String::new() };
    let places: Vec<String> = gains.keys().map(usize::to_string).collect();
    let at = |values: &Vec<f64>| signed(Spread { mean: stats::mean(values), std: stats::std(values) });
    let values: Vec<String> = gains.values().map(at).collect();
    let (place, dip) = found.dip;
    format!(
        "| questions answered with feedback | {} |\n|---|{}\n| against static | {} |\n\n\
         Above the static order for good after: {}; lowest: {} after {place}.\n\n",
        places.join(" | "),
        "---|".repeat(places.len()),
        values.join(" | "),
        never(found.surpasses),
        signed(dip),
    )
}

fn never(place: Option<usize>) -> String {
    place.map_or_else(|| "never".into(), |place| place.to_string())
}

fn signed(spread: Spread) -> String {
    format!("{:+.1} ± {:.1}", spread.mean, spread.std)
}

/// What the paper says of LongMemEval in 4.5.2.
pub fn paper(part: Part) -> &'static str {
    match part {
        Part::Calls => {
            "The paper, LongMemEval: EAR surpasses the retriever after 320 critic calls, the RL update after 1,400.\n"
        }
        _ => {
            "The paper, LongMemEval: EAR surpasses the retriever after 80 queries and falls 3 points below it before; \
             the RL update falls 10 points below and does not surpass it in 400 queries.\n"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surpassing_for_good_is_not_surpassing_once() {
        let gains = Gains::from([
            (0, vec![0.0, 0.0]),
            (20, vec![2.0, 1.0]),
            (40, vec![-4.0, -2.0]),
            (60, vec![3.0, -1.0]),
            (80, vec![3.0, 1.0]),
        ]);
        let found = Efficiency::of(&gains).unwrap();
        assert_eq!(found.surpasses, Some(60));
        assert_eq!(found.by_seed, [Some(60), Some(80)]);
        assert_eq!((found.dip.0, found.dip.1.mean, found.end.mean), (40, -3.0, 2.0));
        assert_eq!(for_good(&[(0, 1.0), (20, -1.0)]), None);
        assert!(Efficiency::of(&Gains::new()).is_none());
        let text = by_place(&gains);
        assert!(text.contains("| against static | +0.0 ± 0.0 | +1.5 ± 0.7 | -3.0 ± 1.4 |"), "{text}");
        assert!(text.ends_with("for good after: 60; lowest: -3.0 ± 1.4 after 40.\n\n"), "{text}");
    }
}
