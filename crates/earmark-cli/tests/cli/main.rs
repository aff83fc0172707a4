//! The binary as a stranger meets it: every verb through real processes, with an encoder stub on loopback.

mod critic;
mod damage;
mod demo;
mod encoder;
mod feedback;
mod filters;
mod input;
mod output;
mod processes;
mod servers;
mod settings;
mod stub;
mod support;
mod surfaces;
mod transfer;
