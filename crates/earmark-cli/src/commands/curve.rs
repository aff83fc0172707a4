//! A learning curve drawn with characters.

use serde::Serialize;

/// Share of held-out questions whose answering memories are all in the top five, after `closed_recalls` recalls
/// were closed with feedback.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Point {
    pub(crate) closed_recalls: usize,
    /// By the static ranking, 0 to 1.
    #[serde(rename = "static")]
    pub(crate) fixed: f32,
    /// By the learned ranking, 0 to 1.
    pub(crate) learned: f32,
}

/// Points of a percentage between two lines.
const STEP: i32 = 5;
/// Characters of a checkpoint.
const COLUMN: usize = 8;

/// `●` learned, `─` static; a column a checkpoint, a line every five points.
pub(crate) fn chart(curve: &[Point]) -> String {
    let (low, high) = range(curve);
    let mut lines: Vec<String> = (low..=high).rev().map(|level| line(curve, level)).collect();
    lines.push(format!("        └{}", "─".repeat(COLUMN * curve.len())));
    let counts: String = curve.iter().map(|point| format!("{:^COLUMN$}", point.closed_recalls)).collect();
    lines.push(format!("         {counts} recalls closed     ● learned   ─ static"));
    lines.join("\n")
}

fn line(curve: &[Point], level: i32) -> String {
    let cells: String = curve.iter().map(|point| cell(point, level)).collect();
    format!("{:>5} % ┤{cells}", STEP * level).trim_end().to_owned()
}

fn cell(point: &Point, level: i32) -> String {
    match (level_of(point.learned) == level, level_of(point.fixed) == level) {
        (true, true) => "───●────".to_owned(),
        (true, false) => format!("{:^COLUMN$}", "●"),
        (false, true) => "─".repeat(COLUMN),
        _ => " ".repeat(COLUMN),
    }
}

fn level_of(share: f32) -> i32 {
    (share * 100.0 / STEP as f32).round() as i32
}

/// Lowest and highest line: one more than needed on each side, within 0 to 100 %.
fn range(curve: &[Point]) -> (i32, i32) {
    let levels = || curve.iter().flat_map(|point| [level_of(point.fixed), level_of(point.learned)]);
    let low = levels().min().unwrap_or(0) - 1;
    let high = levels().max().unwrap_or(0) + 1;
    (low.max(0), high.min(100 / STEP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_rankings_are_drawn_at_their_height() {
        let point = |closed_recalls, fixed, learned| Point { closed_recalls, fixed, learned };
        let expected = "   70 % ┤
   65 % ┤           ●
   60 % ┤
   55 % ┤
   50 % ┤───●────────────
   45 % ┤
        └────────────────
            0       40    recalls closed     ● learned   ─ static";
        assert_eq!(chart(&[point(0, 0.5, 0.5), point(40, 0.5, 0.65)]), expected);
    }

    #[test]
    fn the_ends_of_the_scale_hold() {
        let all = chart(&[Point { closed_recalls: 0, fixed: 0.0, learned: 1.0 }]);
        assert_eq!(all.lines().count(), 23);
        assert!(all.starts_with("  100 % ┤") && chart(&[]).contains("0 %"));
    }
}
