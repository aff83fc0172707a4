//! HTTP and MCP in front of [`earmark`]: the same verbs over the wire.
//!
//! [`App`] holds what requests share, [`router()`] answers them (tests call it without a socket), [`serve()`] puts it
//! on one, [`Proxy`] stands in front of a model endpoint, and [`mcp`] speaks the Model Context Protocol over standard input and output, or over HTTP. [`Keys`] says
//! who may reach which namespace. Handlers hold no logic: they read, call the library off the asynchronous threads,
//! and answer; [`Problem`] is the one mapping of errors.

mod access;
mod app;
mod config;
mod critic;
mod extract;
mod guard;
mod keys;
mod learner;
pub mod log;
pub mod mcp;
mod metrics;
mod observe;
mod page;
mod problem;
mod proxy;
pub mod requests;
mod router;
mod routes;
mod serve;

pub use access::Caller;
pub use app::{App, Missing};
pub use config::{Config, CriticConfig, DEFAULT_PORT};
pub use keys::{Access, Key, Keys};
pub use metrics::Metrics;
pub use problem::Problem;
pub use proxy::{PROXY_PORT, Proxy, ProxyConfig, Remember, proxy_router};
pub use router::{document, router};
pub use serve::{serve, serve_proxy, signalled};
