//! Scopes and filters as SQL: everything is bound, nothing is pasted in.

use rusqlite::types::Value as Sql;
use rusqlite::{Connection, Statement, params_from_iter};

use super::Row;
use super::attributes::{BOOL, ELEMENT, METADATA, NUMBER, TAGS, TEXT, number};
use super::database::Attempt;
use super::rows::microseconds_up;
use crate::filter::{Field, Filter, Order, Scalar, Test};
use crate::record::Scope;

/// A piece of SQL with the values of its `?`, in order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Condition {
    pub(crate) sql: String,
    pub(crate) values: Vec<Sql>,
}

impl Condition {
    fn new(sql: impl Into<String>, values: impl IntoIterator<Item = Sql>) -> Self {
        Condition { sql: sql.into(), values: values.into_iter().collect() }
    }

    fn constant(holds: bool) -> Self {
        Condition::new(if holds { "1" } else { "0" }, [])
    }

    /// True or false (never NULL) of the memory `m`.
    pub(crate) fn of_scope(scope: &Scope) -> Self {
        let parts = parts(scope);
        joined(parts.iter().map(of_filter).collect(), "AND", "1")
    }

    /// The values, and more after them.
    pub(crate) fn with(&self, more: impl IntoIterator<Item = Sql>) -> Vec<Sql> {
        self.values.iter().cloned().chain(more).collect()
    }
}

/// The conditions of a scope that must all hold.
fn parts(scope: &Scope) -> Vec<Filter> {
    let equals = |field: Field, value: &Option<String>| {
        value.as_ref().map(|value| Filter::Field(field, Test::OneOf(vec![Scalar::Text(value.clone())])))
    };
    let time = (scope.after.is_some() || scope.before.is_some())
        .then_some(Filter::Field(Field::OccurredAt, Test::Within(scope.after, scope.before)));
    let mut parts: Vec<Filter> = [
        equals(Field::UserId, &scope.user_id),
        equals(Field::AgentId, &scope.agent_id),
        equals(Field::SessionId, &scope.session_id),
        time,
    ]
    .into_iter()
    .flatten()
    .collect();
    match &scope.filter {
        Some(Filter::All(filters)) => parts.extend(filters.iter().cloned()),
        Some(filter) => parts.push(filter.clone()),
        None => (),
    }
    parts
}

fn of_filter(filter: &Filter) -> Condition {
    match filter {
        Filter::All(parts) => joined(parts.iter().map(of_filter).collect(), "AND", "1"),
        Filter::Any(parts) => joined(parts.iter().map(of_filter).collect(), "OR", "0"),
        Filter::Not(part) => {
            let inner = of_filter(part);
            Condition::new(format!("(NOT {})", inner.sql), inner.values)
        }
        Filter::Field(field, test) => of_field(field, test),
    }
}

/// Joins halves of halves, because the database limits how deep an expression may be.
fn joined(mut parts: Vec<Condition>, word: &str, empty: &str) -> Condition {
    match parts.len() {
        0 => Condition::new(empty, []),
        1 => parts.remove(0),
        length => {
            let right = joined(parts.split_off(length / 2), word, empty);
            let left = joined(parts, word, empty);
            Condition::new(format!("({} {word} {})", left.sql, right.sql), left.with(right.values))
        }
    }
}

fn of_field(field: &Field, test: &Test) -> Condition {
    match column(field) {
        Some(column) => of_column(&format!("m.{column}"), test),
        None => {
            let condition = of_attribute(test);
            let sql = format!(
                "EXISTS (SELECT 1 FROM attributes a INDEXED BY attributes_row WHERE a.row = m.row AND a.key = ? AND ({}))",
                condition.sql
            );
            Condition::new(sql, std::iter::once(key(field)).chain(condition.values))
        }
    }
}

fn column(field: &Field) -> Option<&'static str> {
    match field {
        Field::Id => Some("id"),
        Field::Content => Some("content"),
        Field::Author => Some("author"),
        Field::Kind => Some("kind"),
        Field::UserId => Some("user_id"),
        Field::AgentId => Some("agent_id"),
        Field::SessionId => Some("session_id"),
        Field::OccurredAt => Some("occurred_at"),
        Field::CreatedAt => Some("created_at"),
        Field::Tags | Field::Metadata(_) => None,
    }
}

fn key(field: &Field) -> Sql {
    Sql::Text(match field {
        Field::Metadata(path) => format!("{METADATA}{path}"),
        _ => TAGS.to_owned(),
    })
}

fn of_column(column: &str, test: &Test) -> Condition {
    let there = |sql: String, values: Vec<Sql>| Condition::new(format!("({column} IS NOT NULL AND {sql})"), values);
    match test {
        Test::Exists => Condition::new(format!("{column} IS NOT NULL"), []),
        Test::OneOf(scalars) => match texts(scalars) {
            texts if texts.is_empty() => Condition::constant(false),
            texts => there(format!("{column} IN ({})", marks(texts.len())), texts),
        },
        Test::Ordered(order, Scalar::Text(bound)) => {
            there(format!("{column} {} ?", sign(*order)), vec![Sql::Text(bound.clone())])
        }
        Test::Within(from, until) => {
            let bound = |at: &jiff::Timestamp, sign: &str| {
                Condition::new(format!("{column} {sign} ?"), [Sql::Integer(microseconds_up(*at))])
            };
            let bounds = from.iter().map(|at| bound(at, ">=")).chain(until.iter().map(|at| bound(at, "<")));
            let both = joined(bounds.collect(), "AND", "1");
            there(both.sql, both.values)
        }
        Test::Contains(Scalar::Text(part)) => {
            Condition::new(format!("text_contains({column}, ?)"), [Sql::Text(part.clone())])
        }
        Test::ContainsFolded(part) => {
            Condition::new(format!("text_contains_folded({column}, ?)"), [Sql::Text(part.clone())])
        }
        Test::Ordered(..) | Test::Contains(_) => Condition::constant(false),
    }
}

fn texts(scalars: &[Scalar]) -> Vec<Sql> {
    let text = |scalar: &Scalar| match scalar {
        Scalar::Text(text) => Some(Sql::Text(text.clone())),
        _ => None,
    };
    scalars.iter().filter_map(text).collect()
}

/// A condition on an attribute `a` of the right key.
fn of_attribute(test: &Test) -> Condition {
    match test {
        Test::Exists => Condition::new(format!("a.type < {ELEMENT}"), []),
        Test::OneOf(scalars) => joined(equalities(scalars), "OR", "0"),
        Test::Ordered(order, bound) => {
            let (kind, value) = typed(bound);
            Condition::new(format!("a.type = {kind} AND a.value {} ?", sign(*order)), [value])
        }
        Test::Contains(part) => {
            let (kind, value) = typed(part);
            let element = Condition::new(format!("(a.type = {} AND a.value = ?)", kind + ELEMENT), [value.clone()]);
            let within = Condition::new(format!("(a.type = {TEXT} AND text_contains(a.value, ?))"), [value]);
            joined(if kind == TEXT { vec![element, within] } else { vec![element] }, "OR", "0")
        }
        Test::ContainsFolded(part) => {
            let sql = format!(
                "(a.type = {TEXT} AND text_contains_folded(a.value, ?))
                 OR (a.type = {} AND text_equals_folded(a.value, ?))",
                TEXT + ELEMENT
            );
            Condition::new(sql, [Sql::Text(part.clone()), Sql::Text(part.clone())])
        }
        Test::Within(..) => Condition::constant(false),
    }
}

/// Per type of value one condition, on values and elements of lists alike.
fn equalities(scalars: &[Scalar]) -> Vec<Condition> {
    let of_kind = |kind: i64| {
        let values: Vec<Sql> = scalars.iter().map(typed).filter(|(k, _)| *k == kind).map(|(_, value)| value).collect();
        let sql = format!("(a.type IN ({kind}, {}) AND a.value IN ({}))", kind + ELEMENT, marks(values.len()));
        (!values.is_empty()).then(|| Condition::new(sql, values))
    };
    [BOOL, NUMBER, TEXT].into_iter().filter_map(of_kind).collect()
}

fn typed(scalar: &Scalar) -> (i64, Sql) {
    match scalar {
        Scalar::Bool(value) => (BOOL, Sql::Integer(i64::from(*value))),
        Scalar::Number(value) => (NUMBER, number(*value)),
        Scalar::Text(value) => (TEXT, Sql::Text(value.clone())),
    }
}

fn sign(order: Order) -> &'static str {
    match order {
        Order::Gt => ">",
        Order::Gte => ">=",
        Order::Lt => "<",
        Order::Lte => "<=",
    }
}

fn marks(count: usize) -> String {
    vec!["?"; count].join(",")
}

/// A query of the rows that pass, or of more, where an index can list them.
struct Source {
    query: Condition,
    /// Whether it gives no row that does not pass.
    exact: bool,
}

fn source(filter: &Filter) -> Option<Source> {
    match filter {
        Filter::All(parts) => {
            let first = parts.iter().find_map(source)?;
            Some(Source { exact: first.exact && parts.len() == 1, ..first })
        }
        Filter::Any(parts) if !parts.is_empty() => {
            let sources = parts.iter().map(source).collect::<Option<Vec<_>>>()?;
            let exact = sources.iter().all(|source| source.exact);
            let queries = sources.into_iter().map(|source| source.query);
            Some(Source { query: united(queries.collect()), exact })
        }
        Filter::Any(_) | Filter::Not(_) => None,
        Filter::Field(field, test) => Some(Source { query: field_source(field, test)?, exact: true }),
    }
}

/// All rows of several queries; a row may come twice.
fn united(queries: Vec<Condition>) -> Condition {
    let sql: Vec<&str> = queries.iter().map(|query| query.sql.as_str()).collect();
    Condition::new(sql.join(" UNION ALL "), queries.iter().flat_map(|query| query.values.clone()))
}

fn field_source(field: &Field, test: &Test) -> Option<Condition> {
    let indexed = match test {
        Test::OneOf(_) | Test::Ordered(..) | Test::Within(..) => *field != Field::Content,
        Test::Contains(_) => *field == Field::Tags,
        Test::Exists | Test::ContainsFolded(_) => false,
    };
    if !indexed {
        return None;
    }
    if let Some(column) = column(field) {
        let condition = of_column(&format!("m.{column}"), test);
        return Some(Condition::new(format!("SELECT m.row FROM memories m WHERE {}", condition.sql), condition.values));
    }
    // One branch per type of value, so that each is one range of the index.
    let branches = match test {
        Test::OneOf(scalars) => equalities(scalars),
        Test::Contains(part) => equalities(std::slice::from_ref(part)),
        other => vec![of_attribute(other)],
    };
    let select = |branch: Condition| {
        let sql = format!("SELECT a.row FROM attributes a WHERE a.key = ? AND {}", branch.sql);
        Condition::new(sql, std::iter::once(key(field)).chain(branch.values))
    };
    (!branches.is_empty()).then(|| united(branches.into_iter().map(select).collect()))
}

/// Asks whether single memories pass.
pub(crate) struct Checker<'c> {
    statement: Statement<'c>,
    row_place: usize,
}

impl<'c> Checker<'c> {
    /// For the memories of `scope`.
    pub(crate) fn new(connection: &'c Connection, scope: &Scope) -> Attempt<Self> {
        let condition = Condition::of_scope(scope);
        let sql = format!("SELECT 1 FROM memories m WHERE {} AND m.row = ?", condition.sql);
        let mut statement = connection.prepare(&sql)?;
        for (i, value) in condition.values.iter().enumerate() {
            statement.raw_bind_parameter(i + 1, value)?;
        }
        Ok(Checker { statement, row_place: condition.values.len() + 1 })
    }

    /// Whether the memory is there and passes.
    pub(crate) fn accepts(&mut self, row: Row) -> Attempt<bool> {
        self.statement.raw_bind_parameter(self.row_place, row.0)?;
        let mut found = self.statement.raw_query();
        Ok(found.next()?.is_some())
    }
}

/// Which of `rows` pass.
pub(crate) fn accepts(connection: &Connection, scope: &Scope, rows: &[Row]) -> Attempt<Vec<bool>> {
    let mut checker = Checker::new(connection, scope)?;
    rows.iter().map(|row| checker.accepts(*row)).collect()
}

/// Rows among which all of a scope are, in order.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) rows: Vec<Row>,
    /// Whether all of them pass.
    pub(crate) exact: bool,
}

/// So few rows that it is not worth looking for fewer.
const FEW: usize = 512;

/// A short list that an index gives, if it has at most `most` rows.
pub(crate) fn list_selective(connection: &Connection, scope: &Scope, most: usize) -> Attempt<Option<Listed>> {
    let parts = parts(scope);
    let sources: Vec<Source> = parts.iter().filter_map(source).collect();
    let shortest = match shortest(connection, &sources, FEW)? {
        None => shortest(connection, &sources, most)?,
        few => few,
    };
    let Some(source) = shortest else { return Ok(None) };
    let mut rows = list(connection, &source.query)?;
    rows.sort_unstable();
    rows.dedup();
    Ok(Some(Listed { rows, exact: source.exact && parts.len() == 1 }))
}

/// The source with the fewest rows, if it has at most `most`; no source is counted further than that.
fn shortest<'s>(connection: &Connection, sources: &'s [Source], most: usize) -> Attempt<Option<&'s Source>> {
    let (mut best, mut most) = (None, most);
    for source in sources {
        let count = count_up_to(connection, &source.query, most + 1)?;
        if count <= most {
            (best, most) = (Some(source), count);
        }
    }
    Ok(best)
}

fn count_up_to(connection: &Connection, source: &Condition, most: usize) -> Attempt<usize> {
    let sql = format!("SELECT count(*) FROM (SELECT 1 FROM ({}) LIMIT {most})", source.sql);
    let mut statement = connection.prepare(&sql)?;
    Ok(statement.query_row(params_from_iter(&source.values), |row| row.get::<_, i64>(0))? as usize)
}

/// All rows of the scope in order.
pub(crate) fn list_all(connection: &Connection, scope: &Scope) -> Attempt<Vec<Row>> {
    list_after(connection, scope, Row(i64::MIN))
}

/// The rows of the scope after `row`, in order.
pub(crate) fn list_after(connection: &Connection, scope: &Scope, row: Row) -> Attempt<Vec<Row>> {
    let condition = Condition::of_scope(scope);
    let sql = format!("SELECT m.row FROM memories m WHERE {} AND m.row > ? ORDER BY m.row", condition.sql);
    list(connection, &Condition { sql, values: condition.with([row.0.into()]) })
}

fn list(connection: &Connection, query: &Condition) -> Attempt<Vec<Row>> {
    let mut statement = connection.prepare(&query.sql)?;
    let rows = statement.query_map(params_from_iter(&query.values), |row| row.get(0).map(Row))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_bound() {
        let filter = Filter::parse(&json!({"x') OR 1=1 --": {"eq": "'; DROP TABLE memories"}})).unwrap();
        let condition = of_filter(&filter);
        assert!(!condition.sql.contains("DROP") && !condition.sql.contains("1=1"));
        assert_eq!(condition.values.len(), condition.sql.matches('?').count());
    }
}
