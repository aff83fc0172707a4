//! The learned state as bytes.
