//! Text to index words, for any script.

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Longer words are cut to this many characters, in texts and in queries alike.
pub const MAX_WORD_CHARS: usize = 64;

/// English words that say nothing about what a text is about; neither indexed nor looked for.
const STOP_WORDS: [&str; 64] = [
    "a", "an", "and", "are", "as", "at", "be", "been", "by", "can", "could", "did", "do", "does", "for", "from", "had",
    "has", "have", "how", "i", "in", "is", "it", "its", "me", "my", "of", "on", "or", "our", "should", "that", "the",
    "their", "them", "there", "these", "they", "this", "those", "to", "us", "was", "we", "were", "what", "when",
    "where", "which", "who", "whom", "whose", "why", "will", "with", "would", "you", "your", "he", "him", "his", "she",
    "her",
];

/// The words of a text as the index keeps them, in order, with repetitions.
///
/// A word is a run of letters and digits in lower case (NFKC), without apostrophes: `Don't` is `dont`,
/// `QX-58213` is `qx`, `58213`. English stop words are left out, and English endings cut (Snowball stemmer). Scripts written without spaces (Chinese, Japanese, Korean, Thai, ...)
/// give each character and each pair of neighbours; a run ends where the script changes, so
/// `重启kafka集群` has the word `kafka`.
pub fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for_each_run(text, |run, spaceless| match spaceless {
        true => {
            words.extend(run.iter().map(char::to_string));
            words.extend(run.windows(2).map(|pair| pair.iter().collect::<String>()));
        }
        false => words.extend(index_form(run)),
    });
    words
}

/// The distinct words to look for, in order: as [`words`], but a spaceless run gives its pairs alone
/// (or its single character), which is what tells it from other runs.
pub fn query_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for_each_run(text, |run, spaceless| match spaceless && run.len() > 1 {
        true => words.extend(run.windows(2).map(|pair| pair.iter().collect::<String>())),
        false if spaceless => words.push(run.iter().collect()),
        false => words.extend(index_form(run)),
    });
    let mut seen = std::collections::HashSet::new();
    words.retain(|word| seen.insert(word.clone()));
    words
}

/// A word as it is indexed: stemmed if it is plain Latin; `None` for a stop word.
fn index_form(run: &[char]) -> Option<String> {
    let word: String = run.iter().collect();
    if STOP_WORDS.contains(&word.as_str()) {
        return None;
    }
    let plain = word.bytes().all(|b| b.is_ascii_lowercase());
    Some(if plain { Stemmer::create(Algorithm::English).stem(&word).into_owned() } else { word })
}

fn for_each_run(text: &str, mut emit: impl FnMut(&[char], bool)) {
    let mut run: Vec<char> = Vec::new();
    let mut run_is_spaceless = false;
    for c in text.nfkc().flat_map(char::to_lowercase).filter(|c| !is_silent(*c)) {
        let letter = c.is_alphanumeric();
        let continues = is_combining_mark(c) && !run.is_empty();
        let spaceless = if continues { run_is_spaceless } else { is_spaceless(c) };
        if (!letter && !continues) || spaceless != run_is_spaceless {
            flush(&mut run, run_is_spaceless, &mut emit);
        }
        if letter || continues {
            run_is_spaceless = spaceless;
            run.push(c);
        }
    }
    flush(&mut run, run_is_spaceless, &mut emit);
}

fn flush(run: &mut Vec<char>, spaceless: bool, emit: &mut impl FnMut(&[char], bool)) {
    if !run.is_empty() {
        let end = if spaceless { run.len() } else { run.len().min(MAX_WORD_CHARS) };
        emit(&run[..end], spaceless);
        run.clear();
    }
}

/// Characters that neither belong to a word nor end it: apostrophes and joiners.
fn is_silent(c: char) -> bool {
    matches!(c, '\'' | '\u{2019}' | '\u{2bc}' | '\u{ad}' | '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}')
}

/// Scripts that write words without spaces between them.
fn is_spaceless(c: char) -> bool {
    matches!(u32::from(c),
        0x0E00..=0x0EFF            // Thai, Lao
        | 0x1000..=0x109F          // Myanmar
        | 0x1100..=0x11FF          // Hangul letters
        | 0x1780..=0x17FF          // Khmer
        | 0x3005..=0x3007 | 0x3031..=0x318F // ideographic marks, kana, bopomofo, Hangul letters
        | 0x31A0..=0x31FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF
        | 0xA960..=0xA97F | 0xAC00..=0xD7FF | 0xF900..=0xFAFF
        | 0x20000..=0x3FFFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(query_words(text), expected, "{text}");
    }

    #[test]
    fn query_words_by_hand() {
        check("Don't restart the C++ build", &["dont", "restart", "c", "build"]);
        check("Studies of running horses, who are they?", &["studi", "run", "hors"]);
        check("QX-58213, 2027-04-17; 99.5% (v3.2)", &["qx", "58213", "2027", "04", "17", "99", "5", "v3", "2"]);
        check("NEAR(forge* build\" OR forge", &["near", "forg", "build"]);
        check("昨天重启kafka集群", &["昨天", "天重", "重启", "kafka", "集群"]);
        check("猫", &["猫"]);
        check("서울역에서", &["서울", "울역", "역에", "에서"]);
        check("Cafe\u{301} ﬁne ＡＢＣ", &["café", "fine", "abc"]);
        check(" \u{200b}…🫥 ", &[]);
        check("هذا نص हिन्दी", &["هذا", "نص", "हिन्दी"]);
    }

    #[test]
    fn index_words_hold_single_characters_too() {
        assert_eq!(words("我的猫"), ["我", "的", "猫", "我的", "的猫"]);
        assert_eq!(words("bell bell the"), ["bell", "bell"]);
        assert_eq!(words(&"x".repeat(100))[0].len(), 64);
    }
}
