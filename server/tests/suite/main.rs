//! A node by real HTTP, and the program `coord` as people and scripts call it.

mod command_line;
mod control_plane;
#[path = "../../../engine/tests/conformance/server.rs"]
mod server;
