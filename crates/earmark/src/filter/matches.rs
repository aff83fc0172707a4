//! What a filter means, on one memory in memory: the plain definition that the store must agree with.

use std::cmp::Ordering;

use jiff::Timestamp;
use serde_json::Value;

use super::{Field, Filter, Number, Order, Scalar, Test, lookup};
use crate::record::Memory;

/// Whether `memory` passes `filter`.
pub fn matches(filter: &Filter, memory: &Memory) -> bool {
    match filter {
        Filter::All(parts) => parts.iter().all(|part| matches(part, memory)),
        Filter::Any(parts) => parts.iter().any(|part| matches(part, memory)),
        Filter::Not(part) => !matches(part, memory),
        Filter::Field(field, test) => passes(field, test, memory),
    }
}

fn passes(field: &Field, test: &Test, memory: &Memory) -> bool {
    match field {
        Field::Id => text_passes(Some(&memory.id), test),
        Field::Content => text_passes(Some(&memory.content), test),
        Field::Author => text_passes(memory.author.as_ref(), test),
        Field::Kind => text_passes(Some(&memory.kind), test),
        Field::UserId => text_passes(memory.user_id.as_ref(), test),
        Field::AgentId => text_passes(memory.agent_id.as_ref(), test),
        Field::SessionId => text_passes(memory.session_id.as_ref(), test),
        Field::OccurredAt => memory.occurred_at.is_some_and(|at| time_passes(at, test)),
        Field::CreatedAt => time_passes(memory.created_at, test),
        Field::Tags if memory.tags.is_empty() => false,
        Field::Tags => json_passes(&Value::from(memory.tags.clone()), test),
        Field::Metadata(path) => lookup(&memory.metadata, path).is_some_and(|value| json_passes(value, test)),
    }
}

fn text_passes(text: Option<&String>, test: &Test) -> bool {
    text.is_some_and(|text| json_passes(&Value::from(text.as_str()), test))
}

fn time_passes(at: Timestamp, test: &Test) -> bool {
    match test {
        Test::Within(from, until) => from.is_none_or(|from| at >= from) && until.is_none_or(|until| at < until),
        Test::Exists => true,
        _ => false,
    }
}

fn json_passes(value: &Value, test: &Test) -> bool {
    match test {
        Test::Exists => !value.is_null(),
        Test::OneOf(accepted) => elements(value).iter().any(|element| accepted.iter().any(|a| equal(element, a))),
        Test::Ordered(order, bound) => compare(value, bound).is_some_and(|found| accepts(*order, found)),
        Test::Contains(part) => match (value, part) {
            (Value::String(text), Scalar::Text(part)) => text.contains(part.as_str()),
            (Value::Array(elements), part) => elements.iter().any(|element| equal(element, part)),
            _ => false,
        },
        Test::ContainsFolded(part) => match value {
            Value::Array(elements) => elements.iter().any(|e| e.as_str().is_some_and(|e| fold(e) == fold(part))),
            _ => value.as_str().is_some_and(|text| contains_folded(text, part)),
        },
        Test::Within(..) => false,
    }
}

/// A list is its elements; anything else is one element.
fn elements(value: &Value) -> &[Value] {
    match value {
        Value::Array(elements) => elements,
        other => std::slice::from_ref(other),
    }
}

fn equal(value: &Value, scalar: &Scalar) -> bool {
    match (value, scalar) {
        (Value::Bool(a), Scalar::Bool(b)) => a == b,
        _ => compare(value, scalar) == Some(Ordering::Equal),
    }
}

/// `None` when the two are of different types, or of a type without order.
fn compare(value: &Value, scalar: &Scalar) -> Option<Ordering> {
    match (value, scalar) {
        (Value::Number(a), Scalar::Number(b)) => Some(Number::from_json(a).compare(*b)),
        (Value::String(a), Scalar::Text(b)) => Some(a.as_str().cmp(b)),
        _ => None,
    }
}

fn accepts(order: Order, found: Ordering) -> bool {
    match order {
        Order::Gt => found.is_gt(),
        Order::Gte => found.is_ge(),
        Order::Lt => found.is_lt(),
        Order::Lte => found.is_le(),
    }
}

/// Lower case of every language, as far as `char` knows it.
pub(crate) fn fold(text: &str) -> String {
    text.to_lowercase()
}

pub(crate) fn contains_folded(text: &str, part: &str) -> bool {
    fold(text).contains(&fold(part))
}
