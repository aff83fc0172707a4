//! `earmark serve`, `earmark proxy` and `earmark mcp`.

use std::{future::Future, net::SocketAddr, time::Duration};

use anstream::eprintln;
use earmark::{Error, Result};
use earmark_server::{
    App, Config, CriticConfig, PROXY_PORT, Proxy, ProxyConfig, Remember, log, mcp, serve, serve_proxy, signalled,
};
use tokio::{net::TcpListener, runtime::Runtime};

use super::io_error;
use crate::{
    args::{self, Log, LogFormat, Mcp, Serve},
    open,
    settings::{self, Settings},
};

pub(crate) fn run(settings: &Settings, args: &Serve) -> Result<()> {
    start_log(&args.log);
    let config = config(settings, args)?;
    let listen = config.listen;
    let app = App::new(open::served(settings)?, config)?;
    block_on(async {
        let (listener, address) = bind(listen).await?;
        announce(settings, &app, &format!("http://{address}"), "the page is there, the API at /docs");
        warm(&app);
        serve(&app, listener, signalled()).await;
        Ok(())
    })
}

async fn bind(listen: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(listen).await.map_err(|e| cannot_listen(listen, &e))?;
    let address = listener.local_addr().map_err(|e| cannot_listen(listen, &e))?;
    Ok((listener, address))
}

pub(crate) fn proxy(settings: &Settings, args: &args::Proxy) -> Result<()> {
    start_log(&args.log);
    let upstream = args.upstream.as_ref().or(settings.proxy.upstream.as_ref()).ok_or_else(|| {
        Error::invalid(
            "upstream",
            "is not set: give the model endpoint, for example --upstream http://127.0.0.1:8080/v1",
        )
    })?;
    let config = proxy_config(settings, args)?;
    let listen = config.listen;
    let proxied = ProxyConfig {
        upstream: upstream.clone(),
        namespace: settings.namespace.clone(),
        top_k: args.top_k,
        max_tokens: args.max_tokens,
        remember: match args.remember {
            args::Turns::Both => Remember::Both,
            args::Turns::User => Remember::User,
            args::Turns::None => Remember::None,
        },
    };
    let proxy = Proxy::new(App::new(open::served(settings)?, config)?, proxied)?;
    block_on(async {
        let (listener, address) = bind(listen).await?;
        announce(settings, proxy.app(), &format!("http://{address}/v1"), &format!("in front of {upstream}"));
        warm(proxy.app());
        serve_proxy(&proxy, listener, signalled()).await;
        Ok(())
    })
}

fn proxy_config(settings: &Settings, args: &args::Proxy) -> Result<Config> {
    let mut config = Config { critic: critic(&settings.critic)?, ..Default::default() };
    config.listen.set_port(PROXY_PORT);
    if let Some(text) = args.listen.as_ref().or(settings.proxy.listen.as_ref()) {
        config.listen = address(text)?;
    }
    config.require_key = args.require_key || settings.server.require_key;
    config.allowed_hosts = [settings.server.allowed_hosts.as_slice(), &args.allowed_hosts].concat();
    config.max_body_bytes = settings.server.max_body.unwrap_or(config.max_body_bytes);
    config.log_content = args.log.log_content;
    Ok(config)
}

/// Where the data lies and what is listened on; the first thing that anybody asks.
fn announce(settings: &Settings, app: &App, address: &str, what: &str) {
    if settings.quiet {
        return;
    }
    let keys = if app.config().needs_key() { "callers need a key" } else { "no key needed on this machine" };
    eprintln!("data in {}", app.earmark().path().display());
    eprintln!("listening on {address} ({keys}; {what})");
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
    config.critic = critic(&settings.critic)?;
    Ok(config)
}

fn critic(file: &settings::CriticConfig) -> Result<Option<CriticConfig>> {
    let Some(options) = open::critic_options(file)? else { return Ok(None) };
    let usual = CriticConfig::new(options);
    Ok(Some(CriticConfig {
        namespaces: file.namespaces.clone(),
        close_after: file.close_after.map_or(usual.close_after, Duration::from_secs),
        calls_a_minute: file.calls_a_minute.unwrap_or(usual.calls_a_minute),
        options: usual.options,
    }))
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
