//! `earmark serve` and `earmark mcp`.

use std::{future::Future, net::SocketAddr, time::Duration};

use anstream::eprintln;
use earmark::{Error, Result};
use earmark_server::{App, Config, log, mcp, serve, signalled};
use tokio::{net::TcpListener, runtime::Runtime};

use super::io_error;
use crate::{
    args::{Log, LogFormat, Mcp, Serve},
    open,
    settings::Settings,
};

pub(crate) fn run(settings: &Settings, args: &Serve) -> Result<()> {
    start_log(&args.log);
    let config = config(settings, args)?;
    let listen = config.listen;
    let app = App::new(open::served(settings)?, config)?;
    block_on(async {
        let listener = TcpListener::bind(listen).await.map_err(|e| cannot_listen(listen, &e))?;
        let address = listener.local_addr().map_err(|e| cannot_listen(listen, &e))?;
        announce(settings, &app, address);
        warm(&app);
        serve(&app, listener, signalled()).await;
        Ok(())
    })
}

/// Where the data lies and what is listened on; the first thing that anybody asks.
fn announce(settings: &Settings, app: &App, address: SocketAddr) {
    if settings.quiet {
        return;
    }
    let keys = if app.config().needs_key() { "callers need a key" } else { "no key needed on this machine" };
    eprintln!("data in {}", app.earmark().path().display());
    eprintln!("listening on http://{address} ({keys}; API at http://{address}/docs)");
}

/// Loads the encoder while the first callers are still on their way.
fn warm(app: &App) {
    let earmark = app.earmark().clone();
    tokio::task::spawn_blocking(move || {
        if let Err(error) = earmark.encoder() {
            eprintln!("warning: {error}");
        }
    });
}

fn config(settings: &Settings, args: &Serve) -> Result<Config> {
    let file = &settings.server;
    let mut config = Config::default();
    if let Some(text) = args.listen.as_ref().or(file.listen.as_ref()) {
        config.listen = address(text)?;
    }
    config.require_key = args.require_key || file.require_key;
    config.allowed_hosts = [file.allowed_hosts.as_slice(), &args.allowed_hosts].concat();
    config.max_body_bytes = args.max_body.or(file.max_body).unwrap_or(config.max_body_bytes);
    config.timeout = args.timeout.or(file.timeout).map_or(config.timeout, Duration::from_secs);
    config.refine_tool = args.refine_tool;
    config.log_content = args.log.log_content;
    Ok(config)
}

fn address(text: &str) -> Result<SocketAddr> {
    let spelt = text.replacen("localhost", "127.0.0.1", 1);
    spelt.parse().map_err(|_| {
        Error::invalid("listen", format!("is `{text}`, but must be ADDRESS:PORT, for example 127.0.0.1:3277"))
    })
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Error {
    let reason = match error.kind() {
        std::io::ErrorKind::AddrInUse => "is taken already; is another server running? Give --listen another port",
        _ => return io_error(std::path::Path::new(&address.to_string()), error),
    };
    Error::Conflict { reason: format!("address {address} {reason}") }
}

pub(crate) fn mcp(settings: &Settings, args: &Mcp) -> Result<()> {
    start_log(&args.log);
    let config = Config { refine_tool: args.refine_tool, log_content: args.log.log_content, ..Default::default() };
    let app = App::new(open::served(settings)?, config)?;
    block_on(mcp::stdio(&app, settings.namespace.clone()))
}

fn start_log(args: &Log) {
    let format = match args.log {
        LogFormat::Text => log::Format::Text,
        LogFormat::Json => log::Format::Json,
    };
    log::start(format, log::level(args.log_requests));
}

fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = Runtime::new().map_err(|e| io_error(std::path::Path::new("threads"), &e))?;
    let done = runtime.block_on(work);
    // A thread that waits for input, or a client who does not read, must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(10));
    done
}
