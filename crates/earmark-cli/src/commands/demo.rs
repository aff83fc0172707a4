//! `earmark demo`: a sample conversation is remembered, questions are asked, citations close the recalls, and a
//! curve shows what the ranking learned.

use std::{collections::HashMap, path::PathBuf, time::Instant};

use anstyle::{AnsiColor, Style};
use earmark::{
    Earmark, Error, ExplainedCandidate, Explanation, Feedback, FeedbackReport, Namespace, Recall, RecallRequest, Result,
};
use serde::{Deserialize, Serialize};

use super::{
    advance,
    curve::{Point, chart},
    explain, print_json, print_text, progress, recall,
};
use crate::{
    open,
    render::{counted, printable},
    settings::Settings,
};

const CONVERSATION: &str = include_str!("../../assets/sample/conversation.jsonl");
const QUESTIONS: &str = include_str!("../../assets/sample/questions.jsonl");
/// Numbers of closed recalls at which the held-out questions are asked.
const CHECKPOINTS: [usize; 4] = [5, 10, 20, 40];
const TOP: usize = 5;

#[derive(Debug, Deserialize)]
struct Question {
    question: String,
    answer: String,
    gold: Vec<String>,
    split: String,
}

/// A question with what became of it.
#[derive(Debug, Serialize)]
struct Asked {
    recall: Recall,
    answer: String,
    feedback: FeedbackReport,
}

/// Everything that the demo shows.
#[derive(Debug, Serialize)]
struct Report {
    remembered: usize,
    asked: Vec<Asked>,
    explained: Explanation,
    curve: Vec<Point>,
}

/// The sample in a memory.
struct Demo<'a> {
    settings: &'a Settings,
    namespace: &'a Namespace,
    /// Name of the turn by the id of its memory.
    turns: HashMap<String, String>,
    train: Vec<Question>,
    test: Vec<Question>,
}

pub(crate) fn run(settings: &Settings, shown: usize, keep: Option<PathBuf>) -> Result<()> {
    let temporary = tempfile::tempdir().map_err(|e| super::io_error("temporary folder".as_ref(), &e))?;
    let folder = keep.clone().unwrap_or_else(|| temporary.path().to_owned());
    refuse_used(&folder)?;
    let earmark: Earmark = open::earmark(&Settings { data_dir: folder, quiet: true, ..settings.clone() })?;
    let namespace = earmark.namespace("default")?;
    let say = |text: &str| if settings.json { Ok(()) } else { print_text(text) };
    let started = Instant::now();
    let remembered = remember(settings, &namespace)?;
    let encoder = earmark.encoder()?.model().to_owned();
    say(&introduction(remembered, &encoder, settings, started.elapsed().as_secs_f64()))?;
    let demo = Demo::new(settings, &namespace)?;
    let (asked, curve) = demo.learn(shown)?;
    let explained = demo.explain()?;
    if settings.json {
        return print_json(&Report { remembered, asked, explained, curve });
    }
    print_text(&conclusion(&curve, &demo))?;
    keep.map_or(Ok(()), |folder| {
        print_text(&format!("\nGo on with it: earmark --data-dir {} recall \"...\"", folder.display()))
    })
}

/// A folder to keep the demo in must be new: the sample is not to land among somebody's memories.
fn refuse_used(folder: &std::path::Path) -> Result<()> {
    let used = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if used {
        Err(Error::invalid("keep", format!("names {}, which holds files; name a new folder", folder.display())))
    } else {
        Ok(())
    }
}

/// Stores the conversation.
fn remember(settings: &Settings, namespace: &Namespace) -> Result<usize> {
    let bar = progress(settings, "remembering");
    let report = namespace.import(CONVERSATION.as_bytes(), &mut advance(&bar))?;
    bar.finish_and_clear();
    Ok(report.created)
}

fn introduction(remembered: usize, encoder: &str, settings: &Settings, seconds: f64) -> String {
    let place =
        settings.encoder.url.as_ref().map_or("on this machine".to_owned(), |url| format!("at {}", printable(url)));
    let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
    format!(
        "{bold}Earmark demo{bold:#}\n\
         Remembered {remembered} messages of a chat of three friends in {seconds:.1} s (encoder {}, {place}).\n\
         Now it is asked questions. Each shows what was recalled, then the answer that an agent gave from it; the\n\
         [n] that the answer cites are the feedback. The demo plays the agent from a list of known answers: it cites\n\
         the recalled messages that hold the answer, and says [NO_CITE] where none does.\n\
         {dim}score: what the list is sorted by, in log-odds; meaning: cosine; words: BM25; was: place before learning{dim:#}",
        printable(encoder)
    )
}

impl Demo<'_> {
    fn new<'a>(settings: &'a Settings, namespace: &'a Namespace) -> Result<Demo<'a>> {
        let name =
            |memory: &earmark::Memory| memory.metadata.get("turn").and_then(|t| t.as_str()).unwrap_or("").to_owned();
        let memories = namespace.list(&Default::default(), usize::MAX)?;
        let turns = memories.iter().map(|memory| (memory.id.clone(), name(memory))).collect();
        let (train, test) = questions()?;
        Ok(Demo { settings, namespace, turns, train, test })
    }

    /// Asks and answers the training questions; the held-out ones are asked, without feedback, now and then.
    fn learn(&self, shown: usize) -> Result<(Vec<Asked>, Vec<Point>)> {
        // Nothing has been learned yet, so this is what the static ranking finds, now and later.
        let fixed = self.share(&self.held_out()?);
        let mut curve = vec![Point { closed_recalls: 0, fixed, learned: fixed }];
        let mut asked = Vec::new();
        for (i, question) in self.train.iter().enumerate() {
            let one = self.ask(question)?;
            if !self.settings.json && i < shown {
                print_asked(i + 1, question, &one)?;
            }
            asked.push(one);
            if CHECKPOINTS.contains(&(i + 1)) {
                curve.push(Point { closed_recalls: i + 1, fixed, learned: self.share(&self.held_out()?) });
            }
        }
        let more = self.train.len().saturating_sub(shown);
        if !self.settings.json && more > 0 {
            print_text(&format!(
                "\n{} asked and closed in the same way.",
                counted(more, "more question was", "more questions were")
            ))?;
        }
        Ok((asked, curve))
    }

    /// Asks a question, answers it as an agent would that knows the truth, and hands the answer's citations in.
    fn ask(&self, question: &Question) -> Result<Asked> {
        let recall = self.namespace.recall(&RecallRequest::new(&question.question))?;
        let answer = self.answer(question, &recall);
        let feedback = Feedback { answer: Some(answer.clone()), ..Default::default() };
        let feedback = self.namespace.feedback(&recall.recall_id, &feedback)?;
        Ok(Asked { recall, answer, feedback })
    }

    /// The known answer with `[n]` for each recalled memory that holds it, or `[NO_CITE]`.
    fn answer(&self, question: &Question, recall: &Recall) -> String {
        let gold = recall.results.iter().filter(|result| self.holds_answer(question, &result.memory.id));
        let marks: String = gold.map(|result| format!("[{}]", result.rank)).collect();
        if marks.is_empty() {
            "I do not find that in my memory. [NO_CITE]".to_owned()
        } else {
            format!("{} {marks}", question.answer)
        }
    }

    fn holds_answer(&self, question: &Question, id: &str) -> bool {
        self.turns.get(id).is_some_and(|turn| question.gold.contains(turn))
    }

    fn held_out(&self) -> Result<Vec<Recall>> {
        self.test.iter().map(|question| self.namespace.recall(&RecallRequest::new(&question.question))).collect()
    }

    /// Share of held-out questions with every answering memory in the top five.
    fn share(&self, recalls: &[Recall]) -> f32 {
        let complete = |(question, recall): &(&Question, &Recall)| {
            let top = recall.results.iter().take(TOP).filter(|result| self.holds_answer(question, &result.memory.id));
            top.count() == question.gold.len()
        };
        self.test.iter().zip(recalls).filter(complete).count() as f32 / self.test.len().max(1) as f32
    }

    /// Explains the held-out recall that learning helped most.
    fn explain(&self) -> Result<Explanation> {
        let recalls = self.held_out()?;
        let asked = self.test.iter().zip(&recalls);
        let best = asked.max_by_key(|(question, recall)| self.lift(question, recall));
        let (question, recall) = best.ok_or_else(|| Error::invalid("questions", "has no held-out question"))?;
        let explanation = self.namespace.explain(&recall.recall_id)?;
        if !self.settings.json {
            self.print_explained(question, &explanation, self.lift(question, recall))?;
        }
        Ok(explanation)
    }

    fn print_explained(&self, question: &Question, explanation: &Explanation, lift: usize) -> Result<()> {
        let bold = Style::new().bold();
        let what = match lift {
            0 => "No held-out question gained a memory among its top five. This is how one of them is explained",
            _ => "What learning changed, on a question that never got feedback",
        };
        print_text(&format!("\n{bold}{what} (earmark explain):{bold:#}\n{}", printable(&question.question)))?;
        print_text(&format!("known answer: {}\n{}\n", printable(&question.answer), explanation.in_words))?;
        let near = explanation.candidates.iter().filter(|c| c.rank <= TOP || c.base_rank <= TOP);
        let marked: Vec<ExplainedCandidate> = near.map(|candidate| self.marked(question, candidate)).collect();
        print_text(&explain::candidates(&marked))?;
        if explanation.neighbours.is_empty() {
            Ok(())
        } else {
            print_text(&format!("\n{}", explain::past(&explanation.neighbours)))
        }
    }

    /// The candidate with a mark if it holds the known answer.
    fn marked(&self, question: &Question, candidate: &ExplainedCandidate) -> ExplainedCandidate {
        let label = self.holds_answer(question, &candidate.id).then(|| "(answer)".to_owned());
        ExplainedCandidate { label: label.or_else(|| candidate.label.clone()), ..candidate.clone() }
    }

    /// Places that learning lifted an answering memory into the top five from below it; 0 if it lifted none.
    fn lift(&self, question: &Question, recall: &Recall) -> usize {
        let gold = recall.results.iter().take(TOP).filter(|result| self.holds_answer(question, &result.memory.id));
        let lifted = gold.filter(|result| result.base_rank > TOP).map(|result| result.base_rank - result.rank);
        lifted.max().unwrap_or(0)
    }
}

fn questions() -> Result<(Vec<Question>, Vec<Question>)> {
    let read = |line: &str| serde_json::from_str(line).map_err(|e| Error::invalid("questions", e.to_string()));
    let all: Vec<Question> = QUESTIONS.lines().map(read).collect::<Result<_>>()?;
    Ok(all.into_iter().partition(|q| q.split == "train"))
}

fn print_asked(number: usize, question: &Question, asked: &Asked) -> Result<()> {
    let (bold, green, dim) =
        (Style::new().bold(), Style::new().fg_color(Some(AnsiColor::Green.into())), Style::new().dimmed());
    print_text(&format!("\n{bold}{number}. {}{bold:#}", printable(&question.question)))?;
    print_text(&recall::slate(&asked.recall))?;
    print_text(&format!("{green}answer{green:#}    {}", printable(&asked.answer)))?;
    let report = &asked.feedback;
    print_text(&format!(
        "{dim}feedback  {} useful, {} not; learned version {}{dim:#}",
        report.useful.len(),
        report.not_useful.len(),
        report.learning_version
    ))
}

fn conclusion(curve: &[Point], demo: &Demo<'_>) -> String {
    let bold = Style::new().bold();
    let percent = |share: Option<f32>| 100.0 * share.unwrap_or(0.0);
    let (fixed, learned) = (percent(curve.last().map(|p| p.fixed)), percent(curve.last().map(|p| p.learned)));
    let (train, test) = (demo.train.len(), demo.test.len());
    format!(
        "\n{bold}{test} held-out questions: share with every answering message among the top five{bold:#}\n\n{}\n\n\
         Static ranking {fixed:.0} %, after {train} closed recalls {learned:.0} %. One small sample shows the mechanism, not its worth.\n\
         The answers were played from known ones; no language model was asked{}.",
        chart(curve),
        if demo.settings.encoder.url.is_none() { ", and nothing left this machine" } else { "" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_is_whole() {
        let (train, test) = questions().unwrap();
        assert!(train.len() >= 40 && test.len() >= 20);
        let turns: Vec<serde_json::Value> = CONVERSATION.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert!(turns.len() >= 400);
        let names: Vec<&str> = turns.iter().filter_map(|t| t["metadata"]["turn"].as_str()).collect();
        let gold = train.iter().chain(&test).flat_map(|q| &q.gold);
        assert!(gold.clone().count() >= 60 && gold.clone().all(|g| names.contains(&g.as_str())));
    }
}
