//! Text for people: tables that fit the terminal, and nothing that a stored text could do to it.

use std::fmt;

use comfy_table::{CellAlignment, Column, ColumnConstraint, ContentArrangement, Table, presets};
use jiff::Timestamp;

/// Columns where neither the terminal nor `COLUMNS` says.
const DEFAULT_WIDTH: u16 = 100;
/// A last column narrower than this is hard to read.
const READABLE: usize = 30;
/// Longest text of a cell in characters; `--json` has all of it.
const LONGEST: usize = 300;

/// Rows under a header, the columns aligned. The last column takes the long text; where it would get too narrow, a
/// row becomes a line of named values with the text under it.
pub(crate) struct Rows {
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

/// An empty table.
pub(crate) fn table(header: &[&'static str]) -> Rows {
    Rows { header: header.to_vec(), rows: Vec::new() }
}

impl Rows {
    /// Adds a row with one cell a column.
    pub(crate) fn add(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    fn last(&self) -> usize {
        self.header.len() - 1
    }

    /// Columns that the widest cell of each column needs; two blanks between them.
    fn natural_width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[column].chars().count());
        cells.chain([self.header[column].len()]).max().unwrap_or(0) + 2
    }

    fn fits(&self, width: usize) -> bool {
        let names: usize = (0..self.last()).map(|column| self.natural_width(column)).sum();
        names + self.natural_width(self.last()).min(READABLE) <= width
    }

    fn as_table(&self, width: u16) -> String {
        let mut table = bare(width);
        table.set_header(self.header.iter().copied());
        for row in &self.rows {
            table.add_row(row.iter());
        }
        for (i, column) in table.column_iter_mut().enumerate() {
            self.lay_out(i, column);
        }
        trimmed(&table.to_string())
    }

    fn lay_out(&self, i: usize, column: &mut Column) {
        if i == self.last() {
            column.set_padding((0, 0));
            return;
        }
        column.set_padding((0, 2)).set_constraint(ColumnConstraint::ContentWidth);
        if self.is_numeric(i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }

    fn is_numeric(&self, column: usize) -> bool {
        let number = |row: &Vec<String>| row[column].is_empty() || row[column].parse::<f64>().is_ok();
        self.rows.iter().all(number)
    }

    fn as_blocks(&self, width: u16) -> String {
        let block = |row: &Vec<String>| {
            let named = self.header.iter().zip(row).take(self.last()).filter(|(_, cell)| !cell.is_empty());
            let named = named.map(|(name, cell)| if name.is_empty() { cell.clone() } else { format!("{name} {cell}") });
            let head = filled(named, usize::from(width));
            format!("{head}\n{}", wrapped(&row[self.last()], width, "    "))
        };
        self.rows.iter().map(block).collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = width();
        let fits = self.fits(usize::from(width));
        f.write_str(&if fits { self.as_table(width) } else { self.as_blocks(width) })
    }
}

/// Columns of the terminal: what `COLUMNS` says, else the terminal itself, else a default.
fn width() -> u16 {
    let told = std::env::var("COLUMNS").ok().and_then(|w| w.trim().parse().ok()).filter(|&w| w > 0);
    let terminal = || terminal_size::terminal_size().map(|(width, _)| width.0).filter(|&w| w > 0);
    told.or_else(terminal).unwrap_or(DEFAULT_WIDTH).max(20)
}

fn bare(width: u16) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table
}

/// `text` broken into lines of at most `width` columns, each behind `indent`.
fn wrapped(text: &str, width: u16, indent: &str) -> String {
    let mut table = bare(width.saturating_sub(indent.len() as u16));
    table.add_row([text]);
    if let Some(column) = table.column_mut(0) {
        column.set_padding((0, 0));
    }
    let lines: Vec<String> = trimmed(&table.to_string()).lines().map(|line| format!("{indent}{line}")).collect();
    lines.join("\n")
}

/// The words of a heading in as few lines of at most `width` columns as they need; none is broken.
fn filled(words: impl Iterator<Item = String>, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 2 + word.chars().count() <= width => {
                line.push_str(&format!("  {word}"))
            }
            _ => lines.push(word),
        }
    }
    lines.join("\n")
}

/// Without the blanks at the ends of lines.
fn trimmed(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Stored text made safe to print on one line: control and direction-changing characters are shown escaped, line
/// breaks as blanks.
pub(crate) fn printable(text: &str) -> String {
    escaped(&text.replace(['\n', '\r', '\t'], " "))
}

/// As [`printable`], but the line breaks stay.
pub(crate) fn printable_lines(text: &str) -> String {
    text.lines().map(printable).collect::<Vec<_>>().join("\n")
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_direction(c) { safe.extend(c.escape_unicode()) } else { safe.push(c) }
    }
    safe
}

/// A text as a cell of a table: printable, and not endless.
pub(crate) fn cell(text: &str) -> String {
    shortened(text, LONGEST)
}

/// `text` cut to about `width` characters, at a character's end.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    let start: String = text.chars().take(width + 1).collect();
    let safe = printable(&start);
    if safe.chars().count() <= width {
        return safe;
    }
    safe.chars().take(width.saturating_sub(1)).chain(std::iter::once('…')).collect()
}

/// An instant as a day, or nothing.
pub(crate) fn day(at: Option<Timestamp>) -> String {
    at.map(|t| t.strftime("%Y-%m-%d").to_string()).unwrap_or_default()
}

/// `1 memory`, `2 memories`.
pub(crate) fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_are_shown_not_obeyed() {
        let hostile = "safe\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}end";
        let safe = printable(hostile);
        assert!(safe.starts_with("safe") && safe.ends_with("end"));
        assert!(!safe.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}']));
    }

    #[test]
    fn cuts_fall_between_characters() {
        let text = "\u{200c}".repeat(50) + &"🧭".repeat(50);
        assert_eq!(shortened(&text, 60).chars().count(), 60);
        assert_eq!(shortened("short", 60), "short");
    }

    fn sample() -> Rows {
        let mut rows = table(&["", "score", "memory"]);
        rows.add([
            "[1]".to_owned(),
            "0.91".to_owned(),
            "The spare key hangs behind the boiler in the hall.".to_owned(),
        ]);
        rows.add(["[10]".to_owned(), "-12.5".to_owned(), "The bin day is Tuesday.".to_owned()]);
        rows
    }

    #[test]
    fn wide_rows_are_a_table() {
        let expected = [
            "      score  memory",
            "[1]    0.91  The spare key hangs behind the boiler in the hall.",
            "[10]  -12.5  The bin day is Tuesday.",
        ];
        assert_eq!(sample().as_table(100), expected.join("\n"));
    }

    #[test]
    fn narrow_rows_are_blocks() {
        let rows = sample();
        assert!(rows.fits(100) && !rows.fits(40));
        let expected = "[1]  score 0.91\n    The spare key hangs behind the\n    boiler in the hall.\n[10]  score -12.5\n    The bin day is Tuesday.";
        assert_eq!(rows.as_blocks(40), expected);
        assert_eq!(filled(["[1]", "score 0.91", "was 3"].map(str::to_owned).into_iter(), 16), "[1]  score 0.91\nwas 3");
        assert!(rows.as_table(60).lines().all(|line| line.chars().count() <= 60));
    }
}
