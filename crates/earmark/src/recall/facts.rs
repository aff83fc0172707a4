//! What a question and a text say by themselves: names, times, numbers, who speaks. English word lists; in other
//! languages these facts are simply absent.

use std::collections::HashSet;

use jiff::{Timestamp, tz::TimeZone};

use crate::lexical::words;

const SELF_ROLES: [&str; 3] = ["user", "human", "customer"];
const OTHER_ROLES: [&str; 7] = ["assistant", "ai", "agent", "model", "bot", "system", "tool"];
const FIRST_PERSON: [&str; 8] = ["i", "me", "my", "mine", "im", "ive", "we", "our"];
const SECOND_PERSON: [&str; 3] = ["you", "your", "yours"];
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const TIME_WORDS: [&str; 27] = [
    "yesterday",
    "today",
    "tonight",
    "tomorrow",
    "ago",
    "last",
    "next",
    "recently",
    "week",
    "weeks",
    "weekend",
    "weekends",
    "month",
    "months",
    "year",
    "years",
    "day",
    "days",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "morning",
    "evening",
];
const NUMBER_WORDS: [&str; 10] = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
/// Words after "how" that ask for a number.
const HOW_NUMBER: [&str; 10] = ["many", "much", "old", "often", "far", "tall", "big", "large", "fast", "long"];
/// Words after "what" that ask for a number.
const WHAT_NUMBER: [&str; 9] = ["number", "percentage", "time", "price", "cost", "amount", "year", "date", "size"];
/// Words after "what" or "which" that ask for a time.
const WHAT_TIME: [&str; 5] = ["date", "day", "month", "year", "time"];
const SPANS: [&str; 4] = ["days", "weeks", "months", "years"];

/// What a question asks for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Question {
    /// Its words in lower case, as they stand.
    said: Vec<String>,
    /// Its index words, distinct.
    terms: usize,
    /// It asks when.
    pub asks_when: bool,
    /// It asks for a number.
    pub asks_number: bool,
    /// It speaks of the asker.
    pub first_person: bool,
    /// It speaks of the one asked.
    pub second_person: bool,
    months: Vec<i8>,
    years: Vec<i16>,
}

impl Question {
    /// Reads a question.
    pub fn read(text: &str) -> Question {
        let said: Vec<String> = plain_words(&plain(text)).map(str::to_owned).collect();
        let index = words(text);
        let has = |list: &[&str]| said.iter().any(|word| list.contains(&word.as_str()));
        let follows = |first: &[&str], then: &[&str]| {
            said.windows(2).any(|pair| first.contains(&pair[0].as_str()) && then.contains(&pair[1].as_str()))
        };
        let spans = said.windows(3).any(|w| w[0] == "how" && w[1] == "many" && SPANS.contains(&w[2].as_str()));
        Question {
            asks_when: has(&["when"])
                || follows(&["what", "which"], &WHAT_TIME)
                || follows(&["how"], &["long", "recently"])
                || spans,
            asks_number: follows(&["how"], &HOW_NUMBER)
                || follows(&["what"], &WHAT_NUMBER)
                || follows(&["number", "amount"], &["of"]),
            first_person: has(&FIRST_PERSON),
            second_person: has(&SECOND_PERSON),
            months: said.iter().filter_map(|word| month(word)).collect(),
            years: said.iter().filter_map(|word| year(word)).collect(),
            terms: index.iter().collect::<HashSet<_>>().len(),
            said,
        }
    }

    /// Number of distinct index words.
    pub fn terms(&self) -> usize {
        self.terms
    }

    /// Whether it names this author: one of the name's words of three letters or more.
    pub fn names(&self, author: &str) -> bool {
        plain_words(&plain(author)).any(|part| part.chars().count() > 2 && self.said.iter().any(|word| word == part))
    }

    /// +1 if it asks for the month (or else the year) of `facts`, -1 if for another one, 0 if for none.
    pub fn month_match(&self, facts: &Facts) -> f32 {
        let Some((year, month)) = facts.date else { return 0.0 };
        let sign = |holds: bool| if holds { 1.0 } else { -1.0 };
        match (self.months.is_empty(), self.years.is_empty()) {
            (false, _) => sign(self.months.contains(&month)),
            (true, false) => sign(self.years.contains(&year)),
            (true, true) => 0.0,
        }
    }
}

/// What a memory says by itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Speaker or role.
    pub author: Option<String>,
    /// The author is the one who asks (a user role).
    pub is_user: bool,
    /// The author is an assistant or a tool.
    pub is_assistant: bool,
    /// It speaks of a time.
    pub has_time: bool,
    /// It has a digit or a number word.
    pub has_number: bool,
    /// It ends in a question mark.
    pub asks: bool,
    /// It has a question mark.
    pub has_question: bool,
    /// Index words in it.
    pub length: usize,
    /// Year and month of its time.
    pub date: Option<(i16, i8)>,
}

impl Facts {
    /// Reads a memory.
    pub fn read(content: &str, author: Option<&str>, occurred_at: Option<Timestamp>) -> Facts {
        let said = plain(content);
        let (mut length, mut has_time, mut has_number) = (0, false, false);
        for word in plain_words(&said) {
            length += 1;
            has_time = has_time || speaks_of_time(word);
            has_number = has_number || NUMBER_WORDS.contains(&word) || word.chars().any(char::is_numeric);
        }
        let role = author.map(|a| a.trim().to_lowercase()).unwrap_or_default();
        Facts {
            author: author.filter(|a| !a.trim().is_empty()).map(str::to_owned),
            is_user: SELF_ROLES.contains(&role.as_str()),
            is_assistant: OTHER_ROLES.contains(&role.as_str()),
            has_time,
            has_number,
            asks: content.trim_end().ends_with(['?', '？']),
            has_question: content.contains(['?', '？']),
            length,
            date: occurred_at.map(|at| TimeZone::UTC.to_datetime(at)).map(|at| (at.year(), at.month())),
        }
    }

    /// Whether its author is a name and not a role.
    pub fn has_name(&self) -> bool {
        self.author.is_some() && !self.is_user && !self.is_assistant
    }
}

/// In lower case, apostrophes dropped.
fn plain(text: &str) -> String {
    text.to_lowercase().replace(['\'', '\u{2019}'], "")
}

/// Runs of letters and digits.
fn plain_words(plain: &str) -> impl Iterator<Item = &str> {
    plain.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

fn speaks_of_time(word: &str) -> bool {
    TIME_WORDS.contains(&word) || year(word).is_some() || month(word).is_some_and(|m| m != 5)
}

fn month(word: &str) -> Option<i8> {
    MONTHS.iter().position(|m| *m == word).map(|at| at as i8 + 1)
}

fn year(word: &str) -> Option<i16> {
    let plausible = |y: &i16| (1900..2100).contains(y);
    (word.len() == 4).then(|| word.parse().ok()).flatten().filter(plausible)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_say_what_they_ask_for() {
        let when = Question::read("When did Ana move to Lisbon?");
        assert!(when.asks_when && !when.asks_number && !when.first_person);
        let many = Question::read("How many books did I read in May 2023?");
        assert!(many.asks_number && many.first_person && !many.asks_when);
        assert!(Question::read("how many days until the trip").asks_when);
        assert!(when.names("Ana") && !when.names("Ben") && !when.names("to"));
    }

    #[test]
    fn months_beat_years() {
        let at = |text: &str| Facts { date: Some((2023, 5)), ..Facts::read(text, None, None) };
        let question = Question::read("what happened in June 2023?");
        assert_eq!(question.month_match(&at("x")), -1.0);
        assert_eq!(Question::read("what happened in 2023?").month_match(&at("x")), 1.0);
        assert_eq!(Question::read("what happened?").month_match(&at("x")), 0.0);
    }

    #[test]
    fn texts_say_who_when_and_how_many() {
        let at = "2023-05-08T13:00:00Z".parse().ok();
        let facts = Facts::read("Yesterday I bought 3 lamps. Nice?", Some("User"), at);
        assert!(facts.has_time && facts.has_number && facts.asks && facts.is_user && !facts.has_name());
        assert_eq!(facts.date, Some((2023, 5)));
        let plain = Facts::read("It may rain", Some("Ana"), None);
        assert!(!plain.has_time && !plain.has_number && plain.has_name());
    }
}
