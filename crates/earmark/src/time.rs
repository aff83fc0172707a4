//! Reading the instants that callers and other products write.

use jiff::{Timestamp, civil, tz::TimeZone};
use serde_json::Value;

use crate::error::{Error, Result};

/// Numbers below this magnitude are seconds since 1970, above it milliseconds (in seconds, the year 5138).
const SECONDS_LIMIT: f64 = 1e11;
const EARLIEST: &str = "1969-01-01T00:00:00Z";
const LATEST: &str = "2101-01-01T00:00:00Z";

/// Reads an instant between the years 1969 and 2100: RFC 3339, a date (midnight UTC), a date and time without
/// zone (UTC), or a number of seconds or milliseconds since 1970, also as a string.
///
/// # Errors
/// [`Error::InvalidInput`] that names `field`.
pub fn parse_instant(field: &str, value: &Value) -> Result<Timestamp> {
    let instant = match value {
        Value::Number(number) => number.as_f64().and_then(from_number),
        Value::String(text) => from_text(text.trim()),
        _ => None,
    };
    let valid = |t: &Timestamp| (bound(EARLIEST)..bound(LATEST)).contains(t);
    instant.filter(valid).ok_or_else(|| {
        Error::invalid(
            field,
            format!(
                "must be an instant between 1969 and 2100, written as RFC 3339 (2027-01-31T18:45:00Z), \
                 a date, or seconds or milliseconds since 1970; received {value}"
            ),
        )
    })
}

fn from_text(text: &str) -> Option<Timestamp> {
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Some(instant);
    }
    if let Ok(number) = text.parse::<f64>() {
        return from_number(number);
    }
    let local = text.parse::<civil::DateTime>().ok()?;
    TimeZone::UTC.to_timestamp(local).ok()
}

fn from_number(number: f64) -> Option<Timestamp> {
    let milliseconds = if number.abs() < SECONDS_LIMIT { number * 1000.0 } else { number };
    let representable = milliseconds.is_finite() && milliseconds.abs() < 1e15;
    representable.then(|| Timestamp::from_millisecond(milliseconds.round() as i64).ok()).flatten()
}

fn bound(text: &str) -> Timestamp {
    text.parse().unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn seconds_milliseconds_and_text_are_one_instant() {
        let expected: Timestamp = "2027-01-01T00:00:00Z".parse().unwrap();
        for value in [
            json!(1798761600),
            json!(1798761600000i64),
            json!("1798761600"),
            json!("2027-01-01T00:00:00Z"),
            json!("2027-01-01"),
            json!("2027-01-01 00:00:00"),
            json!("2027-01-01T01:00:00+01:00"),
        ] {
            assert_eq!(parse_instant("timestamp", &value).unwrap(), expected, "{value}");
        }
        let before_1970 = parse_instant("timestamp", &json!(-86400)).unwrap();
        assert_eq!(before_1970.to_string(), "1969-12-31T00:00:00Z");
    }

    #[test]
    fn nonsense_is_refused_and_names_the_field() {
        for value in [json!(99999999999999999i64), json!("soon"), json!(true), json!(""), json!("1066-10-14")] {
            let error = parse_instant("messages[0].timestamp", &value).unwrap_err().to_string();
            assert!(error.contains("messages[0].timestamp"), "{error}");
        }
    }
}
