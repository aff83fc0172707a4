//! The ways the sources write a date.

use jiff::civil::{Date, DateTime};

/// `1:56 pm on 8 May, 2023` (LoCoMo), `2023/05/30 (Tue) 23:40` (LongMemEval), `March-15-2024` (BEAM);
/// anything else is `None`.
pub(super) fn parse(text: &str) -> Option<DateTime> {
    let text = text.trim();
    DateTime::strptime("%I:%M %p on %d %B, %Y", text)
        .or_else(|_| DateTime::strptime("%Y/%m/%d (%a) %H:%M", text))
        .or_else(|_| Date::strptime("%B-%d-%Y", text).map(|date| date.at(0, 0, 0, 0)))
        .ok()
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    #[test]
    fn reads_every_source_and_refuses_the_rest() {
        let rows = [
            ("1:56 pm on 8 May, 2023", Some(date(2023, 5, 8).at(13, 56, 0, 0))),
            ("12:09 am on 13 September, 2023", Some(date(2023, 9, 13).at(0, 9, 0, 0))),
            ("2023/05/30 (Tue) 23:40", Some(date(2023, 5, 30).at(23, 40, 0, 0))),
            ("March-15-2024", Some(date(2024, 3, 15).at(0, 0, 0, 0))),
            ("last week", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
