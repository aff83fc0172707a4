//! The filter language: JSON with AND, OR, NOT and ten operators, parsed once into [`Filter`].
//!
//! ```json
//! {"AND": [{"topic": "billing"}, {"priority": {"gte": 2}}, {"NOT": {"tags": {"contains": "archived"}}}]}
//! ```
//!
//! - `AND`, `OR`, `NOT` in any case, with or without `$`. `NOT` of a list means that none of its items holds.
//! - `{"field": value}` is short for `{"field": {"eq": value}}`; several keys of one object must all hold.
//! - Operators `eq ne in nin gt gte lt lte contains icontains exists`, with or without `$`.
//! - Fields `id content author kind tags user_id agent_id session_id` (or `run_id`) `occurred_at created_at`;
//!   any other name is a metadata key, taken literally first (`billing.plan` as one key) and then as a
//!   nested path; `metadata.NAME` reaches a metadata key that is called like a field.
//! - Values are compared by type: `true`, `1` and `"true"` are three things, `1` and `1.0` are one.
//!   `null` and a missing value are the same thing.
//! - On a list, `eq`, `in` and `contains` hold when one element is equal; on a text, `contains` and
//!   `icontains` look for a part of it.
//! - On the two times, a date without a time stands for the whole day (UTC), so `lte` includes that day.

mod matches;
mod number;
mod parse;
mod path;

use jiff::Timestamp;

pub use matches::matches;
pub(crate) use matches::{contains_folded, fold};
pub use number::Number;
pub(crate) use path::{flatten, lookup};

/// A parsed filter.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// All must hold; an empty list holds.
    All(Vec<Filter>),
    /// At least one must hold; an empty list does not hold.
    Any(Vec<Filter>),
    /// Must not hold.
    Not(Box<Filter>),
    /// The field must pass the test.
    Field(Field, Test),
}

/// What a condition looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// Id of the memory.
    Id,
    /// The text.
    Content,
    /// Speaker or role.
    Author,
    /// `episodic`, `semantic`, or the caller's own word.
    Kind,
    /// The list of labels.
    Tags,
    /// Whom it is about.
    UserId,
    /// Who wrote it.
    AgentId,
    /// The conversation.
    SessionId,
    /// When it happened.
    OccurredAt,
    /// When it was stored.
    CreatedAt,
    /// A metadata key: literal first, then a dotted path.
    Metadata(String),
}

/// A value that can be equal to another.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// `true` or `false`.
    Bool(bool),
    /// Any JSON number.
    Number(Number),
    /// Text.
    Text(String),
}

/// Direction of an ordering test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Greater than.
    Gt,
    /// Greater than or equal to.
    Gte,
    /// Less than.
    Lt,
    /// Less than or equal to.
    Lte,
}

/// What a condition asks of its field.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// The value, or one element of a list, equals one of these.
    OneOf(Vec<Scalar>),
    /// A number ordered against a number, or a text (by bytes) against a text; a list never passes.
    Ordered(Order, Scalar),
    /// A time at or after the first and before the second; a missing bound is open.
    Within(Option<Timestamp>, Option<Timestamp>),
    /// A text that has this part, or a list with an equal element.
    Contains(Scalar),
    /// As [`Test::Contains`] for texts, without regard to case.
    ContainsFolded(String),
    /// There is a value, and it is not `null`.
    Exists,
}
