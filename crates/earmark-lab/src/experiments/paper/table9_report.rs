//! What a folder of Table 9 says.

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::Result;

use super::Options;
use super::catalogue::TABLE_9;
use super::report::write_readme;
use super::reported;
use super::table9::{self, BASES, Critics, Judged, with_explorer};
use crate::experiments::plan::ResultFolder;
use crate::experiments::summary;
use crate::llm_critic::Tally;
use crate::report::Provenance;
use crate::rows::Row;

const FILES: &str = "`summary.md` (tables), `rows.jsonl` (one line a run with all parameters; `recall_by_question` has \
    one digit a test question), `judged.jsonl` (what each critic said in training and, in the rows that end with \
    `-explorer`, at test).";

/// Writes summary.md from what is in `folder`, and a paragraph of README.md for `ran`.
///
/// # Errors
/// If the folder cannot be read or written.
pub fn write(critics: &Critics<'_>, options: &Options, folder: &ResultFolder, ran: Option<&Provenance>) -> Result<()> {
    folder.tidy()?;
    let (rows, judged) = (folder.rows()?, table9::read(folder)?);
    let mut text = opening(critics);
    let pairs: BTreeSet<(&str, &str)> = rows.iter().map(|row| (&*row.key.dataset, &*row.key.encoder)).collect();
    for (dataset, encoder) in pairs {
        let of: Vec<Row> =
            rows.iter().filter(|r| r.key.dataset == dataset && r.key.encoder == encoder).cloned().collect();
        let judged: Vec<&Judged> =
            judged.iter().filter(|j| j.key.dataset == dataset && j.key.encoder == encoder).collect();
        text.push_str(&section(critics, &Group { dataset, encoder, rows: &of, judged }));
    }
    std::fs::write(folder.file("summary.md"), text)?;
    ran.map_or(Ok(()), |provenance| write_readme(&TABLE_9, options, folder, FILES, provenance))
}

fn opening(critics: &Critics<'_>) -> String {
    format!(
        "# {}, recipe `paper`\n\n{}\n\nThe model is `{}`. Recall@5 counts a question if *all* its gold memories are among the \
         five; percent, mean ± standard deviation over seeds, gains in points with a 95 % bootstrap interval over questions. Precision and \
         recall of a critic are measured on the slates that it was shown: a memory that got no label is one that it did not call useful. \
         `citations` is the product's critic: one prompt a slate, an answer that cites. `yes-no` is one prompt a memory, useful where \
         yes is likelier than no by more than {} in natural logarithms. `simulated` has the paper's 88/86; `simulated-as-...` is a \
         simulated critic with the precision and recall measured in training of the model above it. Tokens are counted for every prompt, \
         also where the answer was known from an earlier one.\n",
        TABLE_9.title,
        TABLE_9.shows,
        critics.llm.model(),
        critics.threshold
    )
}

/// One set with one encoder.
struct Group<'a> {
    dataset: &'a str,
    encoder: &'a str,
    rows: &'a [Row],
    judged: Vec<&'a Judged>,
}

impl Group<'_> {
    fn of(&self, method: &str) -> Vec<&Row> {
        self.rows.iter().filter(|row| row.key.method == method).collect()
    }

    /// What a critic said in the rows of `method`, over all seeds, and about how many questions. A run that was
    /// broken off before its rows were kept may have left a line twice; the last one counts.
    fn said(&self, method: &str) -> (usize, Tally) {
        let of: Vec<&&Judged> = self.judged.iter().filter(|judged| judged.key.method == method).collect();
        let is_last = |at: usize| of[at + 1..].iter().all(|later| later.key.seed != of[at].key.seed);
        let last = (0..of.len()).filter(|at| is_last(*at)).map(|at| of[at]);
        last.fold((0, Tally::default()), |(n, all), one| (n + one.questions, all.plus(one.tally)))
    }
}

fn section(critics: &Critics<'_>, group: &Group<'_>) -> String {
    let taught = group.rows.iter().map(|row| row.n_train).max().unwrap_or(0);
    let rate = group.rows.first().map_or(0.0, |row| row.params.learning_rate);
    let mut text = format!(
        "\n## {}, {}\n\nThe first {taught} training questions of each seed teach, learning rate {rate}.\n",
        group.dataset, group.encoder
    );
    let names = critics.names();
    text.push_str("\n### The adapter alone: no critic at test\n\n");
    text.push_str(&table(group, BASES[0], &names, |name| name.to_owned()));
    for (critic, precision, recall, found) in reported::TABLE_9 {
        let _ = writeln!(
            text,
            "| paper, {critic} (LongMemEval, Contriever, 400 questions teach) | {precision:.0} | {recall:.0} | {found:.1} | {:+.1} | 93 | | | | |",
            found - reported::LONGMEMEVAL[0].recall_at_5
        );
    }
    text.push_str("\n### With the critic exploring at test\n\nThe critic is asked three times about each *test* question; the simulated ones read its labels, the model reads the memories alone.\n\n");
    text.push_str(&table(group, BASES[1], &names, with_explorer));
    text
}

/// A line for `base` and for each critic, whose row is named by `method`.
fn table(group: &Group<'_>, base: &str, names: &[String], method: impl Fn(&str) -> String) -> String {
    let mut text = format!(
        "| critic | precision | recall | Recall@5 | against {base} [95 %] | n a seed | slates without a label | memories called useful, of shown | prompts per question | tokens per question, read + written |\n\
         |---|---|---|---|---|---|---|---|---|---|\n"
    );
    let base_rows = group.of(base);
    let _ = writeln!(text, "| none: {base} | | | {} | - | {} | | | | |", recall(&base_rows), n(&base_rows));
    for name in names {
        let rows = group.of(&method(name));
        if rows.is_empty() {
            continue;
        }
        let gain = summary::gain(&rows, &base_rows).map_or_else(|| "-".into(), summary::points);
        let (questions, tally) = group.said(&method(name));
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {gain} | {} | {} of {} | {} of {} | {} |",
            percent(tally.precision()),
            percent(tally.recall()),
            recall(&rows),
            n(&rows),
            tally.unreadable,
            tally.slates,
            tally.useful,
            tally.shown,
            cost(&tally, questions)
        );
    }
    text
}

fn recall(rows: &[&Row]) -> String {
    summary::percent(summary::spread(rows, |row| row.scores.recall_at_5))
}

fn n(rows: &[&Row]) -> usize {
    rows.first().map_or(0, |row| row.n)
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |share| format!("{:.0}", 100.0 * share))
}

/// Two cells: prompts, and tokens read and written; empty without prompts.
fn cost(tally: &Tally, questions: usize) -> String {
    let per_question = |count: f64| count / questions.max(1) as f64;
    match tally.prompts {
        0 => " | ".to_owned(),
        prompts => format!(
            "{:.1} | {:.0} + {:.0}",
            per_question(prompts as f64),
            per_question(tally.prompt_tokens as f64),
            per_question(tally.answer_tokens as f64)
        ),
    }
}
