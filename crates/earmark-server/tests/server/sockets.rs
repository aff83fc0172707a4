//! What only a socket shows: slow and idle clients, and an end that loses nothing.

use std::time::Duration;

use earmark_server::{Config, serve};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

use crate::support::Server;

/// A server on a free port of loopback.
async fn listening(config: Config) -> (Server, std::net::SocketAddr, oneshot::Sender<()>, JoinHandle<()>) {
    let server = Server::with(config);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let app = server.app.clone();
    let running = tokio::spawn(async move { serve(&app, listener, async { drop(stopped.await) }).await });
    (server, address, stop, running)
}

fn request(body: &str) -> String {
    let length = body.len();
    format!(
        "POST /v1/memories HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

async fn answer(stream: &mut TcpStream) -> String {
    let mut bytes = vec![0; 65_536];
    let read = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut bytes)).await.unwrap().unwrap();
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_are_let_go() {
    let (server, address, _stop, _running) =
        listening(Config { timeout: Duration::from_secs(1), ..Config::default() }).await;
    let mut slow_head = TcpStream::connect(address).await.unwrap();
    slow_head.write_all(b"GET /healthz HTTP/1.1\r\nhost: local").await.unwrap();
    let mut slow_body = TcpStream::connect(address).await.unwrap();
    slow_body.write_all(&request("{\"content\": \"never finished\"}").as_bytes()[..120]).await.unwrap();
    let told = answer(&mut slow_body).await;
    assert!(told.starts_with("HTTP/1.1 408"), "{told}");
    assert!(!answer(&mut slow_head).await.starts_with("HTTP/1.1 200"));
    server.still_works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_do_not_keep_others_out() {
    let (server, address, _stop, _running) = listening(Config::default()).await;
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request("{\"content\": \"through the crowd\"}").as_bytes()).await.unwrap();
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200"));
    drop(idle);
    server.still_works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_answers_what_is_under_way() {
    let (server, address, stop, running) = listening(Config::default()).await;
    let whole = request("{\"content\": \"sent at the last moment\"}");
    let (first, rest) = whole.split_at(whole.len() - 5);
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(first.as_bytes()).await.unwrap();
    while !server.app.metrics().text().contains("earmark_requests_in_flight 1") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.send(()).unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    stream.write_all(rest.as_bytes()).await.unwrap();
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200"));
    tokio::time::timeout(Duration::from_secs(10), running).await.expect("it ends").unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
    assert_eq!(server.get("/v1/memories").await.ok()["memories"][0]["content"], "sent at the last moment");
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_requests_get_an_answer_or_the_door() {
    let (server, address, _stop, _running) = listening(Config::default()).await;
    for bytes in [
        &b"\x00\x01\x02\x03\r\n\r\n"[..],
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-bad: a\x01b\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"GET /../../etc/passwd HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"POST /v1/memories HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcde",
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        assert!(!answer(&mut stream).await.starts_with("HTTP/1.1 200"), "{:?}", String::from_utf8_lossy(bytes));
    }
    server.still_works().await;
}
