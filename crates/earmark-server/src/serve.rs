//! The sockets: accepting, limits on slow clients, and an end that loses nothing.

use std::{future::Future, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
    time::{sleep, timeout},
};

use crate::{
    app::App,
    proxy::{Proxy, proxy_router},
    router::router,
};

/// Time that requests under way are given at the end.
const GRACE: Duration = Duration::from_secs(30);

/// Serves `app` on `listener` until `end` comes; then no more is accepted, requests under way are answered, and what
/// was closed by feedback is learned.
pub async fn serve(app: &App, listener: TcpListener, end: impl Future<Output = ()>) {
    answer(app, router(app), listener, end).await;
    finish(app).await;
}

/// As [`serve`], for a proxy; what follows the last answers is done too.
pub async fn serve_proxy(proxy: &Proxy, listener: TcpListener, end: impl Future<Output = ()>) {
    answer(proxy.app(), proxy_router(proxy), listener, end).await;
    if timeout(GRACE, proxy.settle()).await.is_err() {
        tracing::warn!("some answers were not remembered in time");
    }
    finish(proxy.app()).await;
}

async fn answer(app: &App, router: Router, listener: TcpListener, end: impl Future<Output = ()>) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(app.config().max_connections));
    let mut end = std::pin::pin!(end);
    loop {
        tokio::select! {
            (stream, place) = accept(&listener, &places) => connect(app, &router, &graceful, stream, place),
            () = &mut end => break,
        }
    }
    drop(listener);
    tracing::info!("stopping: requests under way are finished");
    if timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests were not finished in time");
    }
}

async fn finish(app: &App) {
    let learning = app.clone();
    if spawn_blocking(move || learning.finish()).await.is_err() {
        tracing::warn!("the last learning broke off; it is made up for later");
    }
}

/// The next connection, once there is a place for it.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> (TcpStream, Option<OwnedSemaphorePermit>) {
    let place = places.clone().acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            // Out of file descriptors, most likely: others have to go first.
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

fn connect(
    app: &App,
    router: &Router,
    graceful: &GracefulShutdown,
    stream: TcpStream,
    place: Option<OwnedSemaphorePermit>,
) {
    let _ = stream.set_nodelay(true);
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(app.config().timeout);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
    let connection = graceful.watch(connection);
    let app = app.clone();
    tokio::spawn(async move {
        app.metrics().connection(true);
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection broke off");
        }
        app.metrics().connection(false);
        drop(place);
    });
}

/// Comes with the first interrupt or termination signal.
pub async fn signalled() {
    let interrupt = async { drop(tokio::signal::ctrl_c().await) };
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        match signal(SignalKind::terminate()) {
            Ok(mut terminate) => {
                tokio::select! { () = interrupt => (), _ = terminate.recv() => () }
            }
            Err(_) => interrupt.await,
        }
    }
    #[cfg(not(unix))]
    interrupt.await;
}
