//! JSON to [`Filter`]; every mistake is an error that names its place.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::{Field, Filter, Number, Order, Scalar, Test};
use crate::error::{Error, Result};

/// Objects and lists inside one another, at most.
const MAX_DEPTH: usize = 32;
/// Conditions in one filter, at most.
const MAX_CONDITIONS: usize = 1_000;
const OPERATORS: &str = "eq, ne, in, nin, gt, gte, lt, lte, contains, icontains, exists";

impl Filter {
    /// Parses the JSON form described at the top of this module.
    ///
    /// # Errors
    /// [`Error::InvalidFilter`] with the place, for an unknown operator, an operand of the wrong type,
    /// nesting deeper than 32, or more than 1,000 conditions.
    pub fn parse(json: &Value) -> Result<Filter> {
        let mut parser = Parser { conditions: 0 };
        parser.filter(json, "", 0)
    }
}

struct Parser {
    conditions: usize,
}

impl Parser {
    fn filter(&mut self, json: &Value, path: &str, depth: usize) -> Result<Filter> {
        if depth >= MAX_DEPTH {
            return Err(invalid(path, format!("is nested deeper than {MAX_DEPTH}")));
        }
        let Value::Object(object) = json else {
            return Err(invalid(path, "must be an object such as {\"field\": value} or {\"AND\": [...]}"));
        };
        let parts = object.iter().map(|(key, value)| self.entry(key, value, &join(path, key), depth));
        one_or_all(parts.collect::<Result<_>>()?)
    }

    fn entry(&mut self, key: &str, value: &Value, path: &str, depth: usize) -> Result<Filter> {
        match key.strip_prefix('$').unwrap_or(key).to_ascii_uppercase().as_str() {
            "AND" => Ok(Filter::All(self.list(value, path, depth)?)),
            "OR" => Ok(Filter::Any(self.list(value, path, depth)?)),
            "NOT" if value.is_array() => Ok(negate(Filter::Any(self.list(value, path, depth)?))),
            "NOT" => Ok(negate(self.filter(value, path, depth + 1)?)),
            _ => self.condition(&field(key), value, path),
        }
    }

    fn list(&mut self, json: &Value, path: &str, depth: usize) -> Result<Vec<Filter>> {
        let items = json.as_array().ok_or_else(|| invalid(path, "must be a list of filters"))?;
        let parse = |(i, item)| self.filter(item, &format!("{path}[{i}]"), depth + 1);
        items.iter().enumerate().map(parse).collect()
    }

    fn condition(&mut self, field: &Field, value: &Value, path: &str) -> Result<Filter> {
        let Value::Object(operators) = value else {
            return self.operator(field, "eq", value, path);
        };
        if operators.is_empty() {
            return Err(invalid(path, format!("has no operator; known are {OPERATORS}")));
        }
        one_or_all(self.operators(field, operators, path)?)
    }

    fn operators(&mut self, field: &Field, operators: &Map<String, Value>, path: &str) -> Result<Vec<Filter>> {
        let parse = |(name, operand): (&String, &Value)| {
            self.operator(field, name.strip_prefix('$').unwrap_or(name), operand, &join(path, name))
        };
        operators.iter().map(parse).collect()
    }

    fn operator(&mut self, field: &Field, name: &str, operand: &Value, path: &str) -> Result<Filter> {
        self.conditions += 1;
        if self.conditions > MAX_CONDITIONS {
            return Err(invalid(
                path,
                format!("is condition number {}; the limit is {MAX_CONDITIONS}", self.conditions),
            ));
        }
        match name.to_ascii_lowercase().as_str() {
            "eq" => equals(field, operand, path),
            "ne" => equals(field, operand, path).map(negate),
            "in" => one_of(field, operand, path),
            "nin" => one_of(field, operand, path).map(negate),
            "gt" => ordered(field, Order::Gt, operand, path),
            "gte" => ordered(field, Order::Gte, operand, path),
            "lt" => ordered(field, Order::Lt, operand, path),
            "lte" => ordered(field, Order::Lte, operand, path),
            "contains" => contains(field, operand, path),
            "icontains" => contains_folded(field, operand, path),
            "exists" => exists(field, operand, path),
            _ => Err(invalid(path, format!("unknown operator `{name}`; known are {OPERATORS}"))),
        }
    }
}

fn equals(field: &Field, operand: &Value, path: &str) -> Result<Filter> {
    match operand {
        Value::Null => Ok(negate(Filter::Field(field.clone(), Test::Exists))),
        _ if is_time(field) => {
            let (from, until) = instant_or_day(operand, path)?;
            Ok(Filter::Field(field.clone(), Test::Within(from, until)))
        }
        _ => Ok(Filter::Field(field.clone(), Test::OneOf(vec![scalar(operand, path)?]))),
    }
}

fn one_of(field: &Field, operand: &Value, path: &str) -> Result<Filter> {
    let items = operand.as_array().ok_or_else(|| invalid(path, "needs a list"))?;
    if items.len() > MAX_CONDITIONS {
        return Err(invalid(path, format!("has {} values; the limit is {MAX_CONDITIONS}", items.len())));
    }
    if is_time(field) || items.iter().any(Value::is_null) {
        let each = items.iter().enumerate().map(|(i, item)| equals(field, item, &format!("{path}[{i}]")));
        return Ok(Filter::Any(each.collect::<Result<_>>()?));
    }
    let scalars = items.iter().enumerate().map(|(i, item)| scalar(item, &format!("{path}[{i}]")));
    Ok(Filter::Field(field.clone(), Test::OneOf(scalars.collect::<Result<_>>()?)))
}

fn ordered(field: &Field, order: Order, operand: &Value, path: &str) -> Result<Filter> {
    if is_time(field) {
        return Ok(Filter::Field(field.clone(), within(order, instant_or_day(operand, path)?)));
    }
    match scalar(operand, path)? {
        Scalar::Bool(_) => Err(invalid(path, "needs a number, a text or a date; true and false have no order")),
        bound => Ok(Filter::Field(field.clone(), Test::Ordered(order, bound))),
    }
}

/// The instants on one side of `[from, until)`: `gt` a day starts after its end, `lte` a day includes it.
fn within(order: Order, (from, until): (Option<Timestamp>, Option<Timestamp>)) -> Test {
    match order {
        Order::Gt => Test::Within(until.or(Some(Timestamp::MAX)), None),
        Order::Gte => Test::Within(from, None),
        Order::Lt => Test::Within(None, from),
        Order::Lte => Test::Within(None, until),
    }
}

fn contains(field: &Field, operand: &Value, path: &str) -> Result<Filter> {
    refuse_time(field, path)?;
    Ok(Filter::Field(field.clone(), Test::Contains(scalar(operand, path)?)))
}

fn contains_folded(field: &Field, operand: &Value, path: &str) -> Result<Filter> {
    refuse_time(field, path)?;
    let part = operand.as_str().ok_or_else(|| invalid(path, "needs a text"))?;
    Ok(Filter::Field(field.clone(), Test::ContainsFolded(part.to_owned())))
}

fn exists(field: &Field, operand: &Value, path: &str) -> Result<Filter> {
    let there = Filter::Field(field.clone(), Test::Exists);
    match operand.as_bool() {
        Some(true) => Ok(there),
        Some(false) => Ok(negate(there)),
        None => Err(invalid(path, "needs true or false")),
    }
}

fn refuse_time(field: &Field, path: &str) -> Result<()> {
    if is_time(field) {
        return Err(invalid(path, "does not apply to a time; use gt, gte, lt, lte"));
    }
    Ok(())
}

fn scalar(operand: &Value, path: &str) -> Result<Scalar> {
    match operand {
        Value::Bool(value) => Ok(Scalar::Bool(*value)),
        Value::Number(value) => Ok(Scalar::Number(Number::from_json(value))),
        Value::String(value) => Ok(Scalar::Text(value.clone())),
        Value::Null => Err(invalid(path, "cannot take null; use {\"exists\": false}")),
        Value::Array(_) => Err(invalid(path, "cannot take a list; use in")),
        Value::Object(_) => Err(invalid(path, "cannot take an object; name the nested key with a dot")),
    }
}

/// `[from, until)` of one instant or of one day; `until` is open at the end of time.
fn instant_or_day(operand: &Value, path: &str) -> Result<(Option<Timestamp>, Option<Timestamp>)> {
    let wrong = || invalid(path, "needs a date such as \"2027-02-14\" or \"2027-02-14T18:45:00Z\"");
    let text = operand.as_str().ok_or_else(wrong)?.trim();
    let (from, length) = match text.parse::<Timestamp>() {
        Ok(instant) => (instant, SignedDuration::from_nanos(1)),
        Err(_) => civil(text).ok_or_else(wrong)?,
    };
    Ok((Some(from), from.checked_add(length).ok()))
}

/// A date, or a date and time, without an offset: UTC.
fn civil(text: &str) -> Option<(Timestamp, SignedDuration)> {
    let is_date = text.len() == 10 || !text.contains([':', 'T', 't', ' ']);
    let (civil, length) = if is_date {
        (text.parse::<Date>().ok()?.to_datetime(Default::default()), SignedDuration::from_hours(24))
    } else {
        (text.parse::<DateTime>().ok()?, SignedDuration::from_nanos(1))
    };
    Some((TimeZone::UTC.to_timestamp(civil).ok()?, length))
}

fn field(key: &str) -> Field {
    match key {
        "id" => Field::Id,
        "content" => Field::Content,
        "author" => Field::Author,
        "kind" => Field::Kind,
        "tags" => Field::Tags,
        "user_id" => Field::UserId,
        "agent_id" => Field::AgentId,
        "session_id" | "run_id" => Field::SessionId,
        "occurred_at" => Field::OccurredAt,
        "created_at" => Field::CreatedAt,
        _ => Field::Metadata(key.strip_prefix("metadata.").unwrap_or(key).to_owned()),
    }
}

fn is_time(field: &Field) -> bool {
    matches!(field, Field::OccurredAt | Field::CreatedAt)
}

fn negate(filter: Filter) -> Filter {
    Filter::Not(Box::new(filter))
}

fn one_or_all(mut parts: Vec<Filter>) -> Result<Filter> {
    Ok(if parts.len() == 1 { parts.remove(0) } else { Filter::All(parts) })
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { format!("`{key}`") } else { format!("{path}.`{key}`") }
}

fn invalid(path: &str, reason: impl Into<String>) -> Error {
    let path = if path.is_empty() { "(top)".to_owned() } else { path.replace('`', "") };
    Error::InvalidFilter { path, reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(json: Value, place: &str, part: &str) {
        let message = Filter::parse(&json).unwrap_err().to_string();
        assert!(message.contains(place) && message.contains(part), "{json}: {message}");
    }

    #[test]
    fn mistakes_name_their_place() {
        refused(json!({"AND": [{"a": 1}, {"priority": {"above": 2}}]}), "AND[1].priority.above", "unknown operator");
        refused(json!({"done": {"gt": true}}), "done.gt", "no order");
        refused(json!({"a": {"in": 3}}), "a.in", "needs a list");
        refused(json!({"a": {"in": [1, {}]}}), "a.in[1]", "object");
        refused(json!({"a": {"exists": 1}}), "a.exists", "true or false");
        refused(json!({"occurred_at": {"lte": "soon"}}), "occurred_at.lte", "date");
        refused(json!({"occurred_at": {"lte": 7}}), "occurred_at.lte", "date");
        refused(json!({"occurred_at": {"contains": "2027"}}), "occurred_at.contains", "time");
        refused(json!({"OR": {"a": 1}}), "OR", "list");
        refused(json!([1]), "(top)", "object");
        refused(json!({"a": {}}), "a", "no operator");
        refused(json!({"a": {"icontains": 1}}), "a.icontains", "text");
    }

    #[test]
    fn depth_is_bounded() {
        let deep = (0..40).fold(json!({"a": 1}), |inner, _| json!({"NOT": inner}));
        refused(deep, "NOT", "deeper");
    }

    #[test]
    fn spellings_of_the_same_filter() {
        let plain = Filter::parse(&json!({"AND": [{"a": {"eq": 1}}, {"NOT": {"b": {"in": ["x"]}}}]})).unwrap();
        for same in [
            json!({"and": [{"a": 1}, {"not": {"b": {"$in": ["x"]}}}]}),
            json!({"$AND": [{"metadata.a": {"$eq": 1.0}}, {"b": {"nin": ["x"]}}]}),
        ] {
            assert_eq!(Filter::parse(&same).unwrap(), plain);
        }
    }

    #[test]
    fn a_date_is_its_whole_day() {
        let lte = Filter::parse(&json!({"occurred_at": {"lte": "2027-02-14"}})).unwrap();
        let lt = Filter::parse(&json!({"occurred_at": {"lt": "2027-02-15T00:00:00Z"}})).unwrap();
        assert_eq!(lte, lt);
        let gt = Filter::parse(&json!({"occurred_at": {"gt": "2027-02-14"}})).unwrap();
        let gte = Filter::parse(&json!({"occurred_at": {"gte": "2027-02-15"}})).unwrap();
        assert_eq!(gt, gte);
    }
}
