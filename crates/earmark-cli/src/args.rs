//! What can be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// The first steps, under `--help`.
const EXAMPLES: &str = "\
Examples:
  earmark remember \"The spare key hangs behind the boiler.\" --author Ana --at 2027-01-31
  earmark recall \"where is the spare key?\"
  earmark feedback RECALL_ID --useful 1        (or --answer \"It hangs behind the boiler [1].\")
  earmark demo                                 (a sample conversation that learns)";

/// A long-term memory for LLM agents whose recall learns from feedback.
///
/// Settings are read from flags, then EARMARK_* variables, then the config file. Exit codes: 0 done, 2 bad input,
/// 3 not found, 4 conflict, 5 encoder or endpoint, 6 storage.
#[derive(Debug, Parser)]
#[command(name = "earmark", version, propagate_version = true, max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// Folder of the data [default: the platform's data folder]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Which memory: namespaces share nothing [default: default]
    #[arg(long, short, global = true, value_name = "NAME", help_heading = "Global options")]
    pub(crate) namespace: Option<String>,
    /// Encoder: a model's name or its folder [default: all-MiniLM-L6-v2]
    #[arg(long, global = true, value_name = "MODEL", help_heading = "Global options")]
    pub(crate) encoder: Option<String>,
    /// Base address of an OpenAI-compatible endpoint that serves the encoder; texts are sent there
    #[arg(long, global = true, value_name = "URL", help_heading = "Global options")]
    pub(crate) encoder_url: Option<String>,
    /// Recipe that ranks and learns: default or paper
    #[arg(long, global = true, value_name = "RECIPE", help_heading = "Global options")]
    pub(crate) recipe: Option<String>,
    /// Config file [default: earmark/config.toml in the platform's config folder]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON instead of text; errors too, on standard error
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
    /// Print no progress and no notes
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub(crate) quiet: bool,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Store texts, messages or JSON lines
    #[command(visible_alias = "add")]
    Remember(Remember),
    /// Ask the memory a question
    ///
    /// Shows the best memories: score is what they are sorted by (log-odds under the default recipe), meaning the
    /// cosine, words the BM25 of shared words, was the place in the static ranking, * what was shown to explore.
    #[command(visible_alias = "search")]
    Recall(Recall),
    /// Say what was useful in the answer to a recall
    Feedback(Feedback),
    /// Label a recall's slate and see the next one
    Refine(Refine),
    /// Delete memories, everywhere
    #[command(visible_alias = "delete")]
    Forget(Forget),
    /// Show why a recall answered as it did
    Explain {
        /// The recall's id
        recall_id: String,
        /// Show every candidate, not only the best ten and the labelled ones
        #[arg(long)]
        all: bool,
    },
    /// Inspect and steer what was learned
    #[command(subcommand)]
    Learning(Learning),
    /// Read memories from a file of another program or benchmark
    Import(Import),
    /// Write every memory as JSON lines
    Export {
        /// File to write; standard output if not given
        file: Option<PathBuf>,
    },
    /// Move the namespace to another encoder, keeping what was learned
    Reembed,
    /// List the namespaces, or remove one
    Namespaces {
        /// Remove this namespace and everything in it
        #[arg(long, value_name = "NAME")]
        remove: Option<String>,
        /// Do not ask
        #[arg(long, short, requires = "remove")]
        yes: bool,
    },
    /// Check the data folder, the encoder and the settings
    Doctor {
        /// Rebuild the indexes from the stored texts and vectors
        #[arg(long)]
        repair: bool,
    },
    /// Serve the memory over HTTP, with MCP at /mcp/NAMESPACE
    ///
    /// Listens on this machine only, unless told otherwise; elsewhere callers need a key (see `earmark keys`).
    /// A page for people is at its address; GET /docs describes the API.
    Serve(Serve),
    /// Give any model endpoint a memory: an OpenAI-compatible proxy in front of it
    ///
    /// Point an application's base URL here (http://127.0.0.1:3278/v1). Each chat call gets what the memory holds for
    /// its last user turn; the answer's citations close the loop, and what the turns tell is remembered (no greetings,
    /// no short questions, no answers that only repeat memories). The headers X-Earmark-Namespace and
    /// X-Earmark-Session, and the call's `user`, say whose memory it is.
    Proxy(Proxy),
    /// Serve one namespace to an MCP client over standard input and output
    Mcp(Mcp),
    /// Make, list and revoke the keys of servers
    #[command(subcommand)]
    Keys(Keys),
    /// Load a sample conversation, ask it questions, and watch it learn
    Demo {
        /// Questions to show in full
        #[arg(long, default_value_t = 12, value_name = "N")]
        questions: usize,
        /// Keep the demo's memory in this new folder, to go on with it
        #[arg(long, value_name = "DIR")]
        keep: Option<PathBuf>,
    },
    /// Print the completion script of a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Where and when, for `remember`.
#[derive(Debug, Args)]
pub(crate) struct Remember {
    /// Texts to store, one memory each; `-`, or no text and piped input, reads one text from standard input
    pub(crate) content: Vec<String>,
    /// Read JSON lines with at least `content` from a file (`-`: standard input)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["content", "messages"])]
    pub(crate) jsonl: Option<PathBuf>,
    /// Read chat messages [{role, name?, content, timestamp?}] from a JSON file (`-`: standard input)
    #[arg(long, value_name = "FILE", conflicts_with = "content")]
    pub(crate) messages: Option<PathBuf>,
    /// Speaker or role
    #[arg(long)]
    pub(crate) author: Option<String>,
    /// episodic, semantic, or your own word
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// A label; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// A JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) metadata: Option<String>,
    /// When it happened: RFC 3339, a date, or seconds since 1970
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    #[command(flatten)]
    pub(crate) owner: Owner,
}

/// Whose memories.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Owner {
    /// The user
    #[arg(long = "user", value_name = "ID")]
    pub(crate) user_id: Option<String>,
    /// The agent
    #[arg(long = "agent", value_name = "ID")]
    pub(crate) agent_id: Option<String>,
    /// The conversation
    #[arg(long = "session", visible_alias = "run", value_name = "ID")]
    pub(crate) session_id: Option<String>,
}

/// Which memories.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Within {
    #[command(flatten)]
    pub(crate) owner: Owner,
    /// A filter, for example '{"topic": "billing", "priority": {"gte": 2}}'
    #[arg(long, value_name = "JSON")]
    pub(crate) filter: Option<String>,
    /// Only memories with this label; may be repeated, then all must be there
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// Only what happened at or after this time
    #[arg(long, value_name = "TIME")]
    pub(crate) after: Option<String>,
    /// Only what happened before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) before: Option<String>,
}

/// Arguments of `recall`.
#[derive(Debug, Args)]
pub(crate) struct Recall {
    /// The question; `-` reads it from standard input
    #[arg(required = true)]
    pub(crate) query: Vec<String>,
    /// How many memories at most
    #[arg(long, short = 'k', visible_alias = "limit", value_name = "N")]
    pub(crate) top_k: Option<usize>,
    /// Stop at about this many tokens of text
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<usize>,
    #[command(flatten)]
    pub(crate) within: Within,
    /// Let the critic judge slates: EARMARK_CRITIC_URL and EARMARK_CRITIC_MODEL name it
    #[arg(long, value_enum, default_value_t = Exploring::Off, value_name = "WHEN")]
    pub(crate) explore: Exploring,
    /// Most calls of the critic
    #[arg(long, value_name = "N")]
    pub(crate) max_critic_calls: Option<usize>,
    /// Close an earlier recall: its id
    #[arg(long, value_name = "RECALL_ID", requires = "closing")]
    pub(crate) previous: Option<String>,
    /// Memories of the earlier recall that were used; comma-separated
    #[arg(long, value_delimiter = ',', value_name = "ID", group = "closing", requires = "previous")]
    pub(crate) used: Vec<String>,
    /// The answer given after the earlier recall, with its [n] citations
    #[arg(long, value_name = "TEXT", group = "closing", requires = "previous")]
    pub(crate) previous_answer: Option<String>,
    /// Answer nothing unless some memory fits with at least this chance, 0 to 1; under 50 memories it has no say until
    /// something was learned
    #[arg(long, value_name = "CHANCE")]
    pub(crate) min_confidence: Option<f32>,
    /// Print only the numbered context for a prompt
    #[arg(long)]
    pub(crate) context: bool,
}

/// Whether to spend critic calls.
#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum Exploring {
    /// Answer from what was learned
    Off,
    /// Until the calls are spent
    On,
    /// Until little is left to find
    Auto,
}

/// What silence means.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Silence {
    /// What was not named was not useful
    Negative,
    /// What was not named stays unjudged
    Ignore,
}

/// Labels for the slate of a recall.
#[derive(Debug, Clone, Args)]
pub(crate) struct Labels {
    /// Ids (or places 1, 2, ...) of memories that helped; comma-separated
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    pub(crate) useful: Vec<String>,
    /// Ids (or places) of memories that did not
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    pub(crate) not_useful: Vec<String>,
}

/// Arguments of `feedback`.
#[derive(Debug, Args)]
pub(crate) struct Feedback {
    /// The recall's id
    pub(crate) recall_id: String,
    #[command(flatten)]
    pub(crate) labels: Labels,
    /// An answer with [n] citations to read the labels from; `-` reads standard input
    #[arg(long, value_name = "TEXT")]
    pub(crate) answer: Option<String>,
    /// What silence about a shown memory means
    #[arg(long, value_enum)]
    pub(crate) uncited: Option<Silence>,
}

/// Arguments of `refine`.
#[derive(Debug, Args)]
pub(crate) struct Refine {
    /// The recall's id
    pub(crate) recall_id: String,
    #[command(flatten)]
    pub(crate) labels: Labels,
}

/// Arguments of `forget`.
#[derive(Debug, Args)]
pub(crate) struct Forget {
    /// Ids of memories
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) within: Within,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Verbs of `learning`.
#[derive(Debug, Subcommand)]
pub(crate) enum Learning {
    /// What was learned, from what, and whether it helps
    Status,
    /// Keep collecting feedback, but change no ranking
    Freeze,
    /// Learn again
    Unfreeze,
    /// Go back to an earlier version
    Rollback {
        /// The version, as `status` lists it; 0 is the static ranking
        #[arg(id = "target", value_name = "VERSION")]
        version: i64,
    },
    /// Forget what was learned, keep memories and experiences
    Reset,
    /// Learn from every experience again, from the start
    Train,
}

/// File formats.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Format {
    /// One object with `content` a line
    Jsonl,
    /// The official LoCoMo file
    Locomo,
    /// The official LongMemEval layout
    Longmemeval,
    /// An export of mem0
    Mem0,
}

/// Arguments of `import`.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// What the file is
    #[arg(value_enum)]
    pub(crate) format: Format,
    /// The file; `-` reads standard input
    pub(crate) file: PathBuf,
}

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Address and port to listen on [default: 127.0.0.1:3277]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Ask for a key on this machine too
    #[arg(long)]
    pub(crate) require_key: bool,
    /// A name under which the server may be addressed, besides localhost; may be repeated
    #[arg(long = "allowed-host", value_name = "NAME")]
    pub(crate) allowed_hosts: Vec<String>,
    /// Largest request body in bytes [default: 33554432]
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_body: Option<usize>,
    /// Longest time in seconds for a request [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<u64>,
    /// Offer the tool `refine` over MCP
    #[arg(long)]
    pub(crate) refine_tool: bool,
    #[command(flatten)]
    pub(crate) log: Log,
}

/// Arguments of `proxy`.
#[derive(Debug, Args)]
pub(crate) struct Proxy {
    /// Base address of the model endpoint, with or without /v1; conversations are sent there
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: Option<String>,
    /// Address and port to listen on [default: 127.0.0.1:3278]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Ask for a key (header X-Earmark-Key) on this machine too
    #[arg(long)]
    pub(crate) require_key: bool,
    /// A name under which the proxy may be addressed, besides localhost; may be repeated
    #[arg(long = "allowed-host", value_name = "NAME")]
    pub(crate) allowed_hosts: Vec<String>,
    /// Memories in the context [default: 5]
    #[arg(long, short = 'k', value_name = "N")]
    pub(crate) top_k: Option<usize>,
    /// About how many tokens the context may have
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<usize>,
    /// Whose turns are remembered
    #[arg(long, value_enum, default_value_t = Turns::Both, value_name = "WHOSE")]
    pub(crate) remember: Turns,
    #[command(flatten)]
    pub(crate) log: Log,
}

/// Whose turns a proxy remembers.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Turns {
    /// What the user says, and what the model adds to what it was given
    Both,
    /// What the user says
    User,
    /// Nobody's: the memory is only asked, and learns
    None,
}

/// What is logged, on standard error.
#[derive(Debug, Args)]
pub(crate) struct Log {
    /// How log lines look
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub(crate) log: LogFormat,
    /// Log every request (without texts)
    #[arg(long)]
    pub(crate) log_requests: bool,
    /// Log the texts of memories and questions too
    #[arg(long, requires = "log_requests")]
    pub(crate) log_content: bool,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// Arguments of `mcp`.
#[derive(Debug, Args)]
pub(crate) struct Mcp {
    /// Offer the tool `refine`
    #[arg(long)]
    pub(crate) refine_tool: bool,
    #[command(flatten)]
    pub(crate) log: Log,
}

/// Verbs of `keys`.
#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Make a key and print it: it is shown this once
    Create {
        /// What to call it
        #[arg(long, default_value = "")]
        name: String,
        /// Namespaces that it opens; comma-separated, `*` is every one [default: the namespace in use]
        #[arg(long, value_delimiter = ',', value_name = "NAME")]
        namespaces: Vec<String>,
        /// What it allows there
        #[arg(long, value_enum, default_value_t = KeyAccess::Write)]
        access: KeyAccess,
    },
    /// List the keys, without the keys themselves
    List,
    /// Refuse a key from now on
    Revoke {
        /// Its id, as `list` shows it
        id: String,
    },
}

/// What a key allows.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum KeyAccess {
    /// Recall, list, explain, export
    Read,
    /// And remember, change, forget, give feedback, import
    Write,
    /// And steer learning, make and remove namespaces
    Admin,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_contradict_each_other_nowhere() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }
}
