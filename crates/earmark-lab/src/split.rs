//! Which questions teach and which are kept for the test.

use std::collections::{BTreeMap, BTreeSet};

use clap::ValueEnum;
use jiff::civil::DateTime;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::data::{Dataset, Question};

/// How questions are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SplitKind {
    /// 80 % of all questions teach, 20 % test, by seed: the paper's
    Random,
    /// All questions of two conversations test (20 % of them where there are more than ten)
    UnseenConversations,
    /// The earlier 80 % teach, in order, the later 20 % test
    Time,
}

/// A division of questions; both lists hold indices into [`Dataset::questions`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// In the order in which they teach.
    pub train: Vec<usize>,
    /// Ascending.
    pub test: Vec<usize>,
}

impl Split {
    /// The last fifth of the training questions as the test part: what may be looked at to choose a parameter.
    pub fn held_out_from_training(&self) -> Split {
        let mut train = self.train.clone();
        let mut test = train.split_off(four_fifths(train.len()));
        test.sort_unstable();
        Split { train, test }
    }
}

const CONVERSATIONS_HELD_OUT: usize = 2;

impl SplitKind {
    /// Its name on the command line and in result rows.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Divides the questions. `seed` decides which questions (or conversations) test and the order of teaching;
    /// a split by time does not depend on it.
    pub fn divide(self, dataset: &Dataset, seed: u64) -> Split {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        match self {
            SplitKind::Random => random(dataset.questions.len(), &mut rng),
            SplitKind::UnseenConversations => unseen_conversations(&dataset.questions, &mut rng),
            SplitKind::Time => by_time(dataset),
        }
    }
}

fn random(count: usize, rng: &mut ChaCha8Rng) -> Split {
    let mut train: Vec<usize> = (0..count).collect();
    train.shuffle(rng);
    let mut test = train.split_off(four_fifths(count));
    test.sort_unstable();
    Split { train, test }
}

fn unseen_conversations(questions: &[Question], rng: &mut ChaCha8Rng) -> Split {
    let names: BTreeSet<&str> = questions.iter().map(|question| question.conversation.as_str()).collect();
    let mut names: Vec<&str> = names.into_iter().collect();
    names.shuffle(rng);
    names.truncate(CONVERSATIONS_HELD_OUT.max(names.len() / 5));
    let held_out = |index: &usize| names.contains(&questions[*index].conversation.as_str());
    let (test, mut train): (Vec<usize>, Vec<usize>) = (0..questions.len()).partition(held_out);
    train.shuffle(rng);
    Split { train, test }
}

/// Within each conversation, so that every one is in both parts; over all questions where a conversation has
/// only a question or two.
fn by_time(dataset: &Dataset) -> Split {
    let mut conversations: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, question) in dataset.questions.iter().enumerate() {
        conversations.entry(&question.conversation).or_default().push(index);
    }
    let lonely = conversations.len() * 5 > dataset.questions.len();
    let groups =
        if lonely { vec![(0..dataset.questions.len()).collect()] } else { conversations.into_values().collect() };
    let moment = |index: &usize| (moment(dataset, &dataset.questions[*index]), *index);
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for mut group in groups {
        group.sort_by_key(moment);
        test.extend(group.split_off(four_fifths(group.len())));
        train.extend(group);
    }
    train.sort_by_key(moment);
    test.sort_unstable();
    Split { train, test }
}

/// When a question can first be asked: its own date, or that of the last memory it needs.
fn moment(dataset: &Dataset, question: &Question) -> Option<DateTime> {
    let memories = &dataset.banks[question.bank].memories;
    question.date.or_else(|| question.gold.iter().filter_map(|row| memories[*row].occurred_at).max())
}

fn four_fifths(count: usize) -> usize {
    (count * 4).div_ceil(5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Bank, LabMemory};

    /// `conversations` banks of ten memories a day apart; question i of a bank needs memory 9 - i.
    fn dataset(conversations: usize) -> Dataset {
        let mut dataset = Dataset { name: "made-up".into(), banks: Vec::new(), questions: Vec::new() };
        for bank in 0..conversations {
            let day = |day: i8| jiff::civil::date(2024, 1, day).at(0, 0, 0, 0);
            let memory = |i: usize| LabMemory {
                id: i.to_string(),
                text: "x".into(),
                caption: None,
                author: None,
                session: None,
                date: None,
                occurred_at: Some(day(i as i8 + 1)),
                kind: None,
            };
            dataset.banks.push(Bank { name: bank.to_string(), memories: (0..10).map(memory).collect() });
            dataset.questions.extend((0..10).map(|i| Question {
                id: format!("{bank}/{i}"),
                bank,
                text: "?".into(),
                gold: vec![9 - i],
                answer: None,
                category: None,
                date: None,
                conversation: bank.to_string(),
            }));
        }
        dataset
    }

    #[test]
    fn every_question_is_in_one_part() {
        let dataset = dataset(10);
        for kind in SplitKind::value_variants() {
            let split = kind.divide(&dataset, 3);
            assert_eq!((split.train.len(), split.test.len()), (80, 20), "{kind:?}");
            let mut all = [split.train.clone(), split.test.clone()].concat();
            all.sort_unstable();
            assert_eq!(all, (0..100).collect::<Vec<_>>(), "{kind:?}");
            assert_eq!(kind.divide(&dataset, 3), split);
        }
        assert_ne!(SplitKind::Random.divide(&dataset, 1), SplitKind::Random.divide(&dataset, 2));
    }

    #[test]
    fn what_is_held_out_of_training_is_no_test_question() {
        let split = Split { train: vec![9, 3, 5, 1, 4, 2], test: vec![0, 6] };
        assert_eq!(split.held_out_from_training(), Split { train: vec![9, 3, 5, 1, 4], test: vec![2] });
    }

    #[test]
    fn unseen_conversations_are_unseen() {
        let dataset = dataset(10);
        let split = SplitKind::UnseenConversations.divide(&dataset, 5);
        let of = |part: &[usize]| part.iter().map(|i| dataset.questions[*i].bank).collect::<BTreeSet<_>>();
        assert_eq!(of(&split.test).len(), 2);
        assert!(of(&split.test).is_disjoint(&of(&split.train)));
    }

    #[test]
    fn time_never_learns_from_the_future_of_a_conversation() {
        let dataset = dataset(3);
        let split = SplitKind::Time.divide(&dataset, 0);
        let last_of = |part: &[usize], bank| {
            let needed = part.iter().map(|i| &dataset.questions[*i]).filter(|q| q.bank == bank);
            needed.map(|q| q.gold[0]).collect::<Vec<_>>()
        };
        for bank in 0..3 {
            assert_eq!(last_of(&split.train, bank), [0, 1, 2, 3, 4, 5, 6, 7]);
            assert_eq!(last_of(&split.test, bank), [9, 8]);
        }
    }
}
