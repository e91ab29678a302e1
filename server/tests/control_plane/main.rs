//! A node by real HTTP: each test has its own, on a SQLite database of its own.

mod access;
mod clients;
mod commands;
mod ending;
mod grants;
mod problems;
mod runs;
mod schedules;
mod stage;
mod starts;
