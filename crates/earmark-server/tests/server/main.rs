//! The server through its router, without a socket (but for what only a socket shows).

mod abuse;
mod access;
mod cases;
mod contract;
mod critic;
mod endpoint;
mod learning;
mod mcp;
mod page;
mod proxy;
mod sockets;
mod support;
