//! Text for people: tables that fit the terminal, and nothing that a stored text could do to it.

use comfy_table::{ContentArrangement, Table, presets};
use jiff::Timestamp;

/// A table without lines, its columns aligned, as wide as the terminal at most.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header.iter().copied());
    if let Some(width) = std::env::var("COLUMNS").ok().and_then(|w| w.parse().ok()) {
        table.set_width(width);
    }
    table
}

/// Stored text made safe to print: control and direction-changing characters are shown escaped, line breaks as blanks.
pub(crate) fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => safe.push(' '),
            c if c.is_control() || is_direction(c) => safe.extend(c.escape_unicode()),
            c => safe.push(c),
        }
    }
    safe
}

/// `text` cut to about `width` characters, at a character's end.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    let safe = printable(text);
    if safe.chars().count() <= width {
        return safe;
    }
    safe.chars().take(width.saturating_sub(1)).chain(std::iter::once('…')).collect()
}

/// An instant as a day, or nothing.
pub(crate) fn day(at: Option<Timestamp>) -> String {
    at.map(|t| t.strftime("%Y-%m-%d").to_string()).unwrap_or_default()
}

fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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
}
