//! The filter language: JSON with AND, OR, NOT and ten operators, parsed once into [`Filter`].

/// A parsed filter.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// All must hold; an empty list holds.
    All(Vec<Filter>),
    /// At least one must hold; an empty list does not hold.
    Any(Vec<Filter>),
    /// Must not hold.
    Not(Box<Filter>),
}
