//! Reading the `[n]` markers of an answer: the free critic.

/// What an answer cites. Places count from 1, as the numbered context shows them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Citations {
    /// Places of the slate that are cited, ascending, each once.
    pub used: Vec<usize>,
    /// Cited numbers that no place of the slate has.
    pub unknown: Vec<usize>,
    /// The answer says `[NO_CITE]`: nothing on the slate helped.
    pub none_helped: bool,
}

impl Citations {
    /// Whether silence about the other places may be read as "not useful": something was cited (or
    /// `NO_CITE` was said), and every number made sense.
    pub fn is_complete(&self) -> bool {
        self.unknown.is_empty() && (self.none_helped || !self.used.is_empty())
    }
}

/// Reads `[2]`, `[1, 3]`, `[1][3]`, `[1-3]`, their full-width forms and `[NO_CITE]` out of `answer`, for a slate
/// of `slate_size` places. Thinking (`<think>` to `</think>`), code, array indices and Markdown links do not count.
///
/// ```
/// let cited = earmark::critic::citations("Both say so [1, 3].", 5);
/// assert_eq!(cited.used, [1, 3]);
/// ```
pub fn citations(answer: &str, slate_size: usize) -> Citations {
    let chars: Vec<char> = without_code(&without_thinking(answer)).chars().collect();
    let mut found = Citations::default();
    for (open, close) in markers(&chars) {
        read_marker(&chars[open + 1..close], slate_size, &mut found);
    }
    found.used.sort_unstable();
    found.used.dedup();
    found.unknown.sort_unstable();
    found.unknown.dedup();
    found
}

/// What an answer says, without its markers and its thinking: `It hangs there [1].` is `It hangs there.`
pub fn without_citations(answer: &str) -> String {
    let text = without_thinking(answer);
    let chars: Vec<char> = without_code(&text).chars().collect();
    let cites = |&(open, close): &(usize, usize)| {
        let mut found = Citations::default();
        read_marker(&chars[open + 1..close], 0, &mut found);
        found != Citations::default()
    };
    let cut: Vec<(usize, usize)> = markers(&chars).into_iter().filter(cites).collect();
    let mut said = String::with_capacity(text.len());
    for (i, c) in text.chars().enumerate() {
        if cut.iter().any(|&(open, _)| open == i) {
            said.truncate(said.trim_end_matches([' ', '\t']).len());
        }
        if !cut.iter().any(|&(open, close)| (open..=close).contains(&i)) {
            said.push(c);
        }
    }
    said.trim().to_owned()
}

/// The brackets, by the places where they open and close, that may be markers.
fn markers(chars: &[char]) -> Vec<(usize, usize)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < chars.len() {
        let Some(end) = marker_end(chars, at) else {
            at += 1;
            continue;
        };
        if !is_index(chars, at, end) && !is_link(chars, end) {
            found.push((at, end));
        }
        at = end + 1;
    }
    found
}

/// Everything after the last `</think>`; an unclosed `<think>` hides the rest.
pub fn without_thinking(answer: &str) -> String {
    let visible = answer.rsplit_once("</think>").map_or(answer, |(_, rest)| rest);
    visible.split_once("<think>").map_or(visible, |(before, _)| before).to_owned()
}

/// Fenced blocks and inline code replaced by as many blanks.
fn without_code(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('`') {
        let ticks = rest[start..].chars().take_while(|&c| c == '`').count();
        let fence = &rest[start..start + ticks];
        kept.push_str(&rest[..start]);
        let inside = &rest[start + ticks..];
        let after = match inside.find(fence) {
            Some(end) => &inside[end + ticks..],
            None if ticks >= 3 => "",
            None => inside,
        };
        let code = &rest[start..rest.len() - after.len()];
        kept.extend(code.chars().map(|_| ' '));
        rest = after;
    }
    kept.push_str(rest);
    kept
}

/// If a bracket opens at `at`, the place of the bracket that closes it within a short distance.
fn marker_end(chars: &[char], at: usize) -> Option<usize> {
    const LONGEST: usize = 60;
    let close = match chars[at] {
        '[' => ']',
        '【' => '】',
        '［' => '］',
        _ => return None,
    };
    let window = &chars[at + 1..chars.len().min(at + LONGEST)];
    window.iter().position(|&c| c == close).map(|offset| at + 1 + offset)
}

/// `items[2] = 3`, `items[2].name`, `call(x)[0]()`: code, not a marker. A marker glued to its word (`seven[2].`) counts.
fn is_index(chars: &[char], open: usize, close: usize) -> bool {
    let glued = open > 0 && (chars[open - 1].is_ascii_alphanumeric() || "_)".contains(chars[open - 1]));
    let after: String = chars[close + 1..].iter().take(3).collect();
    let attribute = after.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()));
    glued && (attribute || after.trim_start().starts_with('='))
}

/// `[4](https://...)` or `[4]: https://...` of Markdown.
fn is_link(chars: &[char], close: usize) -> bool {
    let after: String = chars[close + 1..].iter().take(8).collect();
    after.starts_with('(') || after.strip_prefix(':').is_some_and(|rest| rest.trim_start().starts_with("http"))
}

fn read_marker(inside: &[char], slate_size: usize, found: &mut Citations) {
    let text: String = inside.iter().map(|&c| half_width(c)).collect();
    if text.trim().eq_ignore_ascii_case("NO_CITE") {
        found.none_helped = true;
        return;
    }
    let Some(numbers) = numbers(&text) else { return };
    for number in numbers {
        let known = (1..=slate_size).contains(&number);
        if known { found.used.push(number) } else { found.unknown.push(number) }
    }
}

/// Full-width digits and separators as their ASCII forms.
fn half_width(c: char) -> char {
    match c {
        '０'..='９' => char::from(b'0' + (c as u32 - '０' as u32) as u8),
        '，' | '、' | ';' | '；' => ',',
        '–' | '—' | '－' | '～' | '~' => '-',
        '\u{3000}' => ' ',
        other => other,
    }
}

/// `1, 3` and `1-3` as numbers; `None` if anything else stands there.
fn numbers(text: &str) -> Option<Vec<usize>> {
    const WIDEST_RANGE: usize = 100;
    let mut all = Vec::new();
    for part in text.split(',') {
        let part = part.trim().trim_start_matches('^').trim_start_matches('#');
        match part.split_once('-') {
            Some((low, high)) => {
                let (low, high): (usize, usize) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
                if high < low || high - low > WIDEST_RANGE {
                    return None;
                }
                all.extend(low..=high);
            }
            None => all.push(part.parse().ok()?),
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answer: &str, used: &[usize], unknown: &[usize]) {
        let found = citations(answer, 5);
        assert_eq!(found.used, used, "{answer}");
        assert_eq!(found.unknown, unknown, "{answer}");
    }

    #[test]
    fn every_way_to_cite() {
        check("Dinner is at seven [2].", &[2], &[]);
        check("Both say so [1, 3].", &[1, 3], &[]);
        check("Both say so [1][3].", &[1, 3], &[]);
        check("Both say so [1，3]。", &[1, 3], &[]);
        check("见【4】。", &[4], &[]);
        check("All of these [1-3].", &[1, 2, 3], &[]);
        check("All of these [1–3].", &[1, 2, 3], &[]);
        check("Twice [5], and again [5].", &[5], &[]);
        check("Use `items[2]` for that.", &[], &[]);
        check("Dinner is at seven[2].", &[2], &[]);
        check("then items[2] = 4 and items[3].name", &[], &[]);
        check("[1]: https://example.org", &[], &[]);
        check("```\nx[1] = y[3]\n```", &[], &[]);
        check("```python\nx = [1]\n```\nas in [2]", &[2], &[]);
        check("See [4](https://example.org/menu).", &[], &[]);
        check("As noted [9].", &[], &[9]);
        check("As noted [0].", &[], &[0]);
        check("[a] [] [1.5] [x1]", &[], &[]);
    }

    #[test]
    fn thinking_does_not_count() {
        check("<think>[1] looks odd, [4] is old</think>\nUseful: [2]", &[2], &[]);
        check("[2] <think>[1] never closed", &[2], &[]);
    }

    #[test]
    fn silence_is_a_verdict_only_when_the_citations_are_complete() {
        assert!(citations("It is [2].", 5).is_complete());
        assert!(citations("[NO_CITE]", 5).is_complete());
        assert!(!citations("It is blue.", 5).is_complete());
        assert!(!citations("It is [2] and [9].", 5).is_complete());
    }

    #[test]
    fn hostile_text_ends() {
        let open = "[".repeat(100_000);
        assert_eq!(citations(&open, 5), Citations::default());
        assert_eq!(citations("[1-99999999999]", 5), Citations::default());
        assert_eq!(citations(&"`".repeat(9999), 5), Citations::default());
    }

    #[test]
    fn what_was_said_is_left_when_the_markers_go() {
        for (answer, said) in [
            ("Behind the boiler [1].", "Behind the boiler."),
            ("Both [1][3], see [9].", "Both, see."),
            ("<think>[2]?</think>Blue[2]. [NO_CITE]", "Blue."),
            ("Use `x[1]` and [this](http://a) [link] 【2】", "Use `x[1]` and [this](http://a) [link]"),
            ("[NO_CITE]", ""),
            ("```\nv = a[1]\n``` 🗝 [1-2]\nDone", "```\nv = a[1]\n``` 🗝\nDone"),
        ] {
            assert_eq!(without_citations(answer), said, "{answer}");
        }
    }
}
