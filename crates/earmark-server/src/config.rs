//! How the server runs.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use earmark::critic::LlmOptions;

/// Port that is listened on unless told otherwise.
pub const DEFAULT_PORT: u16 = 3277;

/// Limits and switches of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Address and port; loopback by default.
    pub listen: SocketAddr,
    /// Ask for a key on loopback too; elsewhere one is always asked for.
    pub require_key: bool,
    /// Names under which the server may be addressed, besides loopback ones. On another address than loopback, none
    /// means any: a key is asked for there.
    pub allowed_hosts: Vec<String>,
    /// Largest request body in bytes.
    pub max_body_bytes: usize,
    /// Connections at once; further ones wait.
    pub max_connections: usize,
    /// Calls of the library at once; further ones wait for up to `timeout`.
    pub concurrency: usize,
    /// Longest time for reading a request, for waiting, and for a call; imports and trainings may take longer.
    pub timeout: Duration,
    /// Whether the MCP tool `refine` is offered.
    pub refine_tool: bool,
    /// Whether texts of memories and questions may appear in the log.
    pub log_content: bool,
    /// Who judges slates, if anybody; questions and memories are sent there.
    pub critic: Option<CriticConfig>,
}

/// A critic, and what it does by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct CriticConfig {
    /// How it is called.
    pub options: LlmOptions,
    /// Namespaces whose open recalls it closes; `*` is every one, none by default.
    pub namespaces: Vec<String>,
    /// Age at which it closes them.
    pub close_after: Duration,
    /// Most calls a minute for that.
    pub calls_a_minute: u32,
}

impl CriticConfig {
    /// A critic that is called when a recall asks for it.
    pub fn new(options: LlmOptions) -> CriticConfig {
        CriticConfig { options, namespaces: Vec::new(), close_after: Duration::from_secs(600), calls_a_minute: 10 }
    }
}

impl Default for Config {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Config {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)),
            require_key: false,
            allowed_hosts: Vec::new(),
            max_body_bytes: 32 << 20,
            max_connections: 16_384,
            concurrency: (2 * cores).max(4),
            timeout: Duration::from_secs(30),
            refine_tool: false,
            log_content: false,
            critic: None,
        }
    }
}

impl Config {
    /// Whether callers need a key.
    pub fn needs_key(&self) -> bool {
        self.require_key || !self.listen.ip().is_loopback()
    }
}
