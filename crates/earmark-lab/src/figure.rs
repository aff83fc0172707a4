//! Figures as SVG, on a white ground of their own so that they read on light and dark pages.
//! Values are in percent.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const SIZE: (u32, u32) = (900, 480);
/// Height that a bar needs at least, with its label.
const BAR_HEIGHT: u32 = 30;
const LEGEND_WIDTH: u32 = 230;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(34, 34, 34);
const GRID: RGBColor = RGBColor(225, 225, 225);

/// Colours that stay apart for the colour-blind, in the order of use.
const COLORS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
    RGBColor(120, 60, 20),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// A mean and its spread over seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub std: f64,
}

/// One curve with a band of a standard deviation.
#[derive(Debug, Clone)]
pub struct Curve {
    /// For the legend.
    pub name: String,
    /// Where on the x axis, and the value there.
    pub points: Vec<(f64, Spread)>,
    /// What a paper reports for the last point.
    pub paper: Option<f64>,
}

/// Curves over the places of an axis, for example numbers of training questions.
#[derive(Debug, Clone)]
pub struct Curves {
    /// Heading.
    pub title: String,
    /// What the places are.
    pub x_axis: String,
    /// What the values are.
    pub y_axis: String,
    /// The labels of the places 0, 1, ...; empty where x is a number in its own right.
    pub places: Vec<String>,
    /// The curves.
    pub curves: Vec<Curve>,
    /// A value that does not depend on the place, as a dashed line.
    pub level: Option<(String, f64)>,
    /// What the hollow marks are.
    pub paper: String,
}

/// One bar with an error bar of a standard deviation.
#[derive(Debug, Clone)]
pub struct Bar {
    /// Its label.
    pub name: String,
    /// Its length.
    pub value: Spread,
    /// What a paper reports for it.
    pub paper: Option<f64>,
    /// Drawn in a second colour.
    pub marked: bool,
}

/// Horizontal bars, first on top.
#[derive(Debug, Clone)]
pub struct Bars {
    /// Heading.
    pub title: String,
    /// What the values are.
    pub axis: String,
    /// The bars.
    pub bars: Vec<Bar>,
    /// Names of the two colours: plain and marked.
    pub groups: [String; 2],
    /// What the hollow marks are.
    pub paper: String,
}

/// Values at the places 0, 1, ...
pub fn in_places(values: Vec<Spread>) -> Vec<(f64, Spread)> {
    values.into_iter().enumerate().map(|(place, value)| (place as f64, value)).collect()
}

/// Writes a figure of curves.
///
/// # Errors
/// If the file cannot be written.
pub fn draw_curves(path: &Path, figure: &Curves) -> Result<()> {
    draw(path, &figure.title, SIZE.1, |area| curves(&area, figure))
}

/// Writes a figure of bars.
///
/// # Errors
/// If the file cannot be written.
pub fn draw_bars(path: &Path, figure: &Bars) -> Result<()> {
    let height = SIZE.1.max(120 + BAR_HEIGHT * figure.bars.len() as u32);
    draw(path, &figure.title, height, |area| bars(&area, figure))
}

fn draw(path: &Path, title: &str, height: u32, body: impl FnOnce(Area<'_>) -> Result<()>) -> Result<()> {
    let root = SVGBackend::new(path, (SIZE.0, height)).into_drawing_area();
    let failed = |error: String| anyhow!("{} cannot be drawn: {error}", path.display());
    root.fill(&WHITE).map_err(|error| failed(error.to_string()))?;
    text(&root, title, (20, 24), 18, HPos::Left)?;
    body(root.margin(44, 0, 0, 0))?;
    root.present().map_err(|error| failed(error.to_string()))
}

fn curves(area: &Area<'_>, figure: &Curves) -> Result<()> {
    let (left, legend) = area.split_horizontally(SIZE.0 - LEGEND_WIDTH);
    let (low, high) = value_range(figure);
    let axis = XAxis::of(figure);
    let mut chart = ChartBuilder::on(&left)
        .margin(12)
        .x_label_area_size(48)
        .y_label_area_size(58)
        .build_cartesian_2d(axis.low..axis.high, low..high)
        .map_err(drawing)?;
    curve_mesh(&mut chart, figure)?;
    if let Some((_, value)) = &figure.level {
        level(&mut chart, *value, &axis)?;
    }
    for (number, curve) in figure.curves.iter().enumerate() {
        draw_curve(&mut chart, curve, COLORS[number % COLORS.len()], axis.mark)?;
    }
    curve_legend(&legend, figure)
}

/// Ends of the x axis, and where the paper's values are marked: right of all points.
struct XAxis {
    low: f64,
    high: f64,
    mark: f64,
}

impl XAxis {
    fn of(figure: &Curves) -> XAxis {
        let ends = figure.curves.iter().flat_map(|curve| &curve.points).map(|(x, _)| *x);
        let last = ends.fold(0.0, f64::max);
        if figure.places.is_empty() {
            XAxis { low: -0.02 * last, high: 1.06 * last.max(1.0), mark: 1.03 * last }
        } else {
            XAxis { low: -0.15, high: last + 0.35, mark: last + 0.2 }
        }
    }
}

fn curve_mesh(chart: &mut Chart<'_, '_>, figure: &Curves) -> Result<()> {
    let label = |x: &f64| place_label(figure, *x);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .axis_style(INK)
        .x_labels(if figure.places.is_empty() { 10 } else { figure.places.len() + 1 })
        .x_label_formatter(&label)
        .x_desc(figure.x_axis.as_str())
        .y_desc(figure.y_axis.as_str())
        .label_style((FONT, 14, &INK))
        .axis_desc_style((FONT, 15, &INK))
        .draw()
        .map_err(drawing)
}

/// The label of a place, or nothing between places.
fn place_label(figure: &Curves, x: f64) -> String {
    if figure.places.is_empty() {
        return if x < 0.0 { String::new() } else { format!("{x:.0}") };
    }
    let place = x.round();
    let near = (x - place).abs() < 1e-6 && place >= 0.0;
    if near { figure.places.get(place as usize).cloned().unwrap_or_default() } else { String::new() }
}

/// Whole tens around everything that is drawn.
fn value_range(figure: &Curves) -> (f64, f64) {
    let points = figure.curves.iter().flat_map(|curve| &curve.points);
    let ends = points.flat_map(|(_, point)| [point.mean - point.std, point.mean + point.std]);
    let papers = figure.curves.iter().filter_map(|curve| curve.paper);
    let all: Vec<f64> = ends.chain(papers).chain(figure.level.as_ref().map(|(_, value)| *value)).collect();
    let low = all.iter().copied().fold(100.0, f64::min);
    let high = all.iter().copied().fold(0.0, f64::max);
    (((low - 1.0) / 5.0).floor() * 5.0, ((high + 1.0) / 5.0).ceil() * 5.0)
}

fn level(chart: &mut Chart<'_, '_>, value: f64, axis: &XAxis) -> Result<()> {
    let line = [(axis.low, value), (axis.high, value)];
    let style = INK.stroke_width(1);
    chart.draw_series(DashedLineSeries::new(line, 6, 4, style)).map(|_| ()).map_err(drawing)
}

fn draw_curve(chart: &mut Chart<'_, '_>, curve: &Curve, color: RGBColor, mark: f64) -> Result<()> {
    let points = &curve.points;
    let upper = points.iter().map(|(x, y)| (*x, y.mean + y.std));
    let lower = points.iter().rev().map(|(x, y)| (*x, y.mean - y.std));
    let band = Polygon::new(upper.chain(lower).collect::<Vec<_>>(), color.mix(0.13));
    chart.draw_series(std::iter::once(band)).map_err(drawing)?;
    let means: Vec<(f64, f64)> = points.iter().map(|(x, y)| (*x, y.mean)).collect();
    chart.draw_series(LineSeries::new(means.clone(), color.stroke_width(2))).map_err(drawing)?;
    chart.draw_series(means.into_iter().map(|point| Circle::new(point, 3, color.filled()))).map_err(drawing)?;
    paper_marks(chart, curve.paper.map(|value| ((mark, value), color)).into_iter().collect())
}

/// Hollow diamonds.
fn paper_marks(chart: &mut Chart<'_, '_>, marks: Vec<((f64, f64), RGBColor)>) -> Result<()> {
    let mark =
        |(at, color): ((f64, f64), RGBColor)| EmptyElement::at(at) + PathElement::new(diamond(), color.stroke_width(2));
    chart.draw_series(marks.into_iter().map(mark)).map(|_| ()).map_err(drawing)
}

fn diamond() -> Vec<(i32, i32)> {
    vec![(0, -6), (6, 0), (0, 6), (-6, 0), (0, -6)]
}

fn curve_legend(area: &Area<'_>, figure: &Curves) -> Result<()> {
    let mut y = 24;
    for (number, curve) in figure.curves.iter().enumerate() {
        let color = COLORS[number % COLORS.len()];
        stroke(area, &[(8, y), (34, y)], color)?;
        text(area, &curve.name, (42, y), 14, HPos::Left)?;
        y += 24;
    }
    if let Some((name, _)) = &figure.level {
        stroke(area, &[(8, y), (18, y)], INK)?;
        stroke(area, &[(24, y), (34, y)], INK)?;
        text(area, name, (42, y), 14, HPos::Left)?;
        y += 24;
    }
    paper_legend(area, &figure.paper, y)?;
    let last = if figure.paper.is_empty() { y } else { y + 24 };
    text(area, "band: mean ± std over seeds", (8, last), 13, HPos::Left)
}

fn paper_legend(area: &Area<'_>, name: &str, y: i32) -> Result<()> {
    if name.is_empty() {
        return Ok(());
    }
    let moved: Vec<(i32, i32)> = diamond().iter().map(|(dx, dy)| (21 + dx, y + dy)).collect();
    stroke(area, &moved, INK)?;
    text(area, name, (42, y), 14, HPos::Left)
}

fn bars(area: &Area<'_>, figure: &Bars) -> Result<()> {
    let (left, legend) = area.split_horizontally(SIZE.0 - LEGEND_WIDTH);
    let count = figure.bars.len() as f64;
    let ends = figure.bars.iter().flat_map(|bar| [bar.value.mean + bar.value.std, bar.paper.unwrap_or(0.0)]);
    let high = bar_end(ends.fold(0.0, f64::max));
    let low = bar_start(figure);
    let mut chart = ChartBuilder::on(&left)
        .margin(12)
        .x_label_area_size(48)
        .y_label_area_size(label_width(figure))
        .build_cartesian_2d(low..high, 0.0..count)
        .map_err(drawing)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .axis_style(INK)
        .x_desc(figure.axis.as_str())
        .label_style((FONT, 14, &INK))
        .axis_desc_style((FONT, 15, &INK))
        .draw()
        .map_err(drawing)?;
    for (number, bar) in figure.bars.iter().enumerate() {
        draw_bar(&left, &mut chart, bar, count - number as f64 - 0.5)?;
    }
    bar_legend(&legend, figure)
}

/// Room for the longest label.
fn label_width(figure: &Bars) -> u32 {
    let longest = figure.bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0);
    (7 * longest as u32 + 60).clamp(170, 400)
}

/// 0, or a whole five below the shortest where some bars are negative.
fn bar_start(figure: &Bars) -> f64 {
    let ends = figure.bars.iter().flat_map(|bar| [bar.value.mean - bar.value.std, bar.paper.unwrap_or(0.0)]);
    let shortest = ends.fold(0.0, f64::min);
    let negative = figure.bars.iter().any(|bar| bar.value.mean.min(bar.paper.unwrap_or(0.0)) < 0.0);
    if negative { (shortest / 5.0).floor() * 5.0 } else { 0.0 }
}

/// The next whole ten with some room, or the next whole one where all bars are short.
fn bar_end(longest: f64) -> f64 {
    if longest <= 5.0 { longest.ceil() } else { ((longest + 3.0) / 10.0).ceil() * 10.0 }
}

fn draw_bar(area: &Area<'_>, chart: &mut Chart<'_, '_>, bar: &Bar, y: f64) -> Result<()> {
    let color = COLORS[usize::from(bar.marked)];
    let Spread { mean, std } = bar.value;
    let body = Rectangle::new([(0.0, y - 0.28), (mean, y + 0.28)], color.mix(0.75).filled());
    chart.draw_series(std::iter::once(body)).map_err(drawing)?;
    let spread = PathElement::new([(mean - std, y), (mean + std, y)], INK.stroke_width(2));
    chart.draw_series(std::iter::once(spread)).map_err(drawing)?;
    paper_marks(chart, bar.paper.map(|value| ((value, y), INK)).into_iter().collect())?;
    let (base_x, base_y) = area.get_base_pixel();
    let (x, y) = chart.backend_coord(&(chart.x_range().start, y));
    text(area, &format!("{}   {mean:.1}", bar.name), (x - base_x - 8, y - base_y), 14, HPos::Right)
}

fn bar_legend(area: &Area<'_>, figure: &Bars) -> Result<()> {
    for (number, name) in figure.groups.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        let y = 24 + 24 * number as i32;
        let box_ = Rectangle::new([(12, y - 7), (30, y + 7)], COLORS[number].mix(0.75).filled());
        area.draw(&box_).map_err(drawing)?;
        text(area, name, (42, y), 14, HPos::Left)?;
    }
    let y = 24 + 24 * figure.groups.iter().filter(|name| !name.is_empty()).count() as i32;
    paper_legend(area, &figure.paper, y)?;
    let last = if figure.paper.is_empty() { y } else { y + 24 };
    text(area, "line: mean ± std over seeds", (8, last), 13, HPos::Left)
}

fn stroke(area: &Area<'_>, line: &[(i32, i32)], color: RGBColor) -> Result<()> {
    area.draw(&PathElement::new(line.to_vec(), color.stroke_width(2))).map_err(drawing)
}

fn text(area: &Area<'_>, words: &str, at: (i32, i32), size: u32, side: HPos) -> Result<()> {
    let style = (FONT, size).into_font().color(&INK).pos(Pos::new(side, VPos::Center));
    area.draw(&Text::new(words.to_owned(), at, style)).map_err(drawing)
}

fn drawing(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("the figure cannot be drawn: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_says_what_it_shows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("figure.svg");
        let spread = |mean| Spread { mean, std: 1.5 };
        let curve = |name: &str| Curve {
            name: name.into(),
            points: in_places(vec![spread(30.0), spread(40.0)]),
            paper: Some(43.6),
        };
        let figure = Curves {
            title: "Recall".into(),
            x_axis: "training questions".into(),
            y_axis: "Recall@5 (%)".into(),
            places: vec!["0".into(), "20".into()],
            curves: vec![curve("ear"), curve("rl")],
            level: Some(("static".into(), 33.0)),
            paper: "the paper".into(),
        };
        draw_curves(&path, &figure).unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        for words in ["Recall", "training questions", "ear", "rl", "static", "the paper", "20"] {
            assert!(svg.contains(words), "{words}");
        }
        assert_eq!(value_range(&figure), (25.0, 45.0));

        let bar = Bar { name: "only-retriever".into(), value: spread(33.0), paper: None, marked: true };
        let groups = ["no critic".into(), "critic".into()];
        let bars = Bars { title: "t".into(), axis: "a".into(), bars: vec![bar], groups, paper: "the paper".into() };
        draw_bars(&path, &bars).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().contains("only-retriever"));
        assert!(draw_bars(Path::new("/nowhere/figure.svg"), &bars).is_err());
    }
}
