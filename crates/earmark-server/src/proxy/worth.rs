//! Which turns are worth remembering: those that tell something. A small memory would soon be full of the rest.

use std::collections::HashSet;

use earmark::{critic::without_citations, lexical::query_words};

/// Words of greetings, thanks and assent, which tell nothing by themselves.
const PLEASANTRIES: &str = "hello hi hey good morning afternoon evening night thanks thank thx please ok okay yes yeah \
    no sure great cool nice perfect bye goodbye cheers welcome sorry hallo hola bonjour ciao danke merci gracias";
/// A question with more words than this (stop words left out) tells something on the way.
const SHORT_QUESTION: usize = 12;
/// An answer with fewer new words than this repeats what it was given.
const NEW_WORDS: usize = 4;

/// What a user said, if it tells something: more than a greeting, a word of thanks, or a short question.
pub(super) fn tells(said: &str) -> Option<String> {
    let told = telling_words(said);
    let sentences = sentences(said);
    let asks = sentences.iter().filter(|sentence| !telling_words(sentence).is_empty()).all(|s| is_question(s));
    let tells = !told.is_empty() && (!asks || told.len() > SHORT_QUESTION);
    tells.then(|| said.to_owned())
}

/// What an answer says besides its citations, if that is more than the question and the memories behind it say.
pub(super) fn adds(answer: &str, question: &str, context: &str) -> Option<String> {
    let said = without_citations(answer);
    let known: HashSet<String> = query_words(question).into_iter().chain(query_words(context)).collect();
    let new = telling_words(&said).iter().filter(|word| !known.contains(*word)).count();
    (new >= NEW_WORDS).then_some(said)
}

/// The distinct words of a text, without stop words and pleasantries.
fn telling_words(text: &str) -> Vec<String> {
    let empty = query_words(PLEASANTRIES);
    query_words(text).into_iter().filter(|word| !empty.contains(word)).collect()
}

/// The sentences of a text: each ends at a mark before a blank, or at the end of its line.
fn sentences(text: &str) -> Vec<&str> {
    let (mut found, mut from) = (Vec::new(), 0);
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let ends_word = chars.peek().is_none_or(|(_, next)| next.is_whitespace());
        if c == '\n' || "。！？".contains(c) || (".!?؟".contains(c) && ends_word) {
            found.push(&text[from..at + c.len_utf8()]);
            from = at + c.len_utf8();
        }
    }
    found.push(&text[from..]);
    found
}

fn is_question(sentence: &str) -> bool {
    sentence.trim_end().ends_with(['?', '？', '؟'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_tell_and_the_rest_does_not() {
        for told in [
            "My gate code is 4471.",
            "Call me Bo",
            "4471",
            "Where is it? I left the key with Ana.",
            "I paid 4.50. OK?",
            "我住在北京。",
            "Did I tell you that my sister Ana moved from Porto to a small blue house in Utrecht with her three cats, \
             because her new job at the harbour starts in April?",
        ] {
            assert!(tells(told).is_some(), "{told}");
        }
        for empty in [
            "Hi!",
            "Thanks, perfect.",
            "ok",
            "...",
            "Where is the key?",
            "Hello! Where is the key? Who has it?",
            "钥匙在哪里？",
            "Hey,\nwhen does the train leave?",
        ] {
            assert!(tells(empty).is_none(), "{empty}");
        }
    }

    #[test]
    fn answers_are_kept_for_what_they_add() {
        let (question, context) = ("Where is the spare key?", "[1] (2027-02-14) Ana: The key hangs behind the boiler.");
        assert_eq!(adds("Your spare key hangs behind the boiler, Ana [1].", question, context), None);
        assert_eq!(adds("[NO_CITE]", question, context), None);
        assert_eq!(adds("Sorry, I do not know that. [NO_CITE]", question, context), None);
        let plan = "Behind the boiler [1]. I suggest a lockbox next to the garden gate instead.";
        assert_eq!(adds(plan, question, context).as_deref(), Some(plan.replace(" [1]", "").as_str()));
    }
}
