//! `/v1/export` and `/v1/import`: memories as JSON lines.

use std::{io, time::Duration};

use axum::{
    Extension, Json,
    body::{Body, Bytes},
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use earmark::Imported;
use tokio::{runtime::Handle, sync::mpsc, task::spawn_blocking, time::timeout};
use tokio_stream::wrappers::ReceiverStream;

use super::{Answer, Problems};
use crate::{
    access::Caller,
    app::{App, Missing, open},
    extract::{Lines, Params},
    keys::Access,
    problem::Problem,
    requests::Where,
};

/// Bytes that are sent at a time.
const PIECE: usize = 64 << 10;

/// Import
///
/// Stores the memories of JSON lines: what an export writes, or any objects with `content`. Good lines are stored,
/// others listed as refused.
#[utoipa::path(post, path = "/v1/import", tag = "transfer", operation_id = "import", params(Where),
    request_body(content((String = "application/x-ndjson"), (String = "application/octet-stream"))),
    responses((status = 200, body = Imported), Problems))]
pub(crate) async fn import(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(place): Params<Where>,
    Lines(bytes): Lines,
) -> Answer<Imported> {
    let namespace = caller.enter(place.namespace.as_deref(), Access::Write)?;
    let work = move |memory: &earmark::Namespace| memory.import(&bytes, &mut |_, _| ());
    let imported = app.with_long(namespace, Missing::Create, work).await?;
    app.metrics().remembered(imported.created);
    Ok(Json(imported))
}

/// Export
///
/// Every memory as one JSON object a line, oldest first.
#[utoipa::path(get, path = "/v1/export", tag = "transfer", operation_id = "export", params(Where),
    responses((status = 200, body = String, content_type = "application/x-ndjson"), Problems))]
pub(crate) async fn export(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(place): Params<Where>,
) -> Result<Response, Problem> {
    let namespace = caller.enter(place.namespace.as_deref(), Access::Read)?;
    let memory = app.run(move |earmark| open(earmark, &namespace, Missing::Refuse)).await?;
    let permit = app.permit().await?;
    let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(4);
    let patience = app.config().timeout;
    let handle = Handle::current();
    spawn_blocking(move || {
        let _permit = permit;
        let mut pipe = Pipe { sender, patience, handle, piece: Vec::with_capacity(PIECE) };
        let done = memory.export(&mut pipe).map_err(io::Error::other).and_then(|_| io::Write::flush(&mut pipe));
        if let Err(error) = done {
            // The connection is cut, so that a half export is not taken for a whole one.
            let _ = pipe.send(Err(io::Error::other(error.to_string())));
        }
    });
    let headers = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((headers, Body::from_stream(ReceiverStream::new(receiver))).into_response())
}

/// Writes pieces to a client, and gives up on one who does not read.
struct Pipe {
    sender: mpsc::Sender<io::Result<Bytes>>,
    patience: Duration,
    handle: Handle,
    piece: Vec<u8>,
}

impl Pipe {
    fn send(&self, piece: io::Result<Bytes>) -> io::Result<()> {
        match self.handle.block_on(timeout(self.patience, self.sender.send(piece))) {
            Ok(Ok(())) => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::BrokenPipe, "the client stopped reading")),
        }
    }
}

impl io::Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
        self.send(Ok(piece.into()))
    }
}
