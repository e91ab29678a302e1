//! The end of a load test: its table, its JSON and its verdict.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::{Failure, Result};

use super::nodes::Restart;
use super::wrk::Measured;

/// How many of the lost ones a failure names.
const NAMED: usize = 5;

pub(super) struct Outcome {
    pub(super) parts: [(&'static str, Measured); 3],
    pub(super) restarts: Vec<Restart>,
    /// Workflows whose start was confirmed and that the database does not have.
    pub(super) lost: Vec<String>,
    pub(super) confirmed: usize,
    /// Some of what was answered that was no success.
    pub(super) refusals: Vec<String>,
    pub(super) is_optimized: bool,
}

impl Outcome {
    pub(super) fn table(&self) -> String {
        let mut text = format!(
            "\n  {:<18}{:>12}{:>10}{:>10}{:>10}{:>8}",
            "", "requests/s", "p50 ms", "p99 ms", "max ms", "failed"
        );
        let ms = |microseconds: u64| microseconds as f64 / 1000.0;
        for (name, part) in &self.parts {
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n  {name:<18}{:>12.0}{:>10.1}{:>10.1}{:>10.1}{:>8}",
                part.per_second(),
                ms(part.p50),
                ms(part.p99),
                ms(part.max),
                part.failed()
            );
        }
        text.push('\n');
        for (number, restart) in (1..).zip(&self.restarts) {
            let _ = write!(
                text,
                "\n  node {number} ended {} after it was told to, and took traffic again after {}",
                seconds(restart.ended_after),
                seconds(restart.ready_after)
            );
        }
        let _ = write!(
            text,
            "\n  {} starts were confirmed, {} of them lost",
            self.confirmed,
            self.lost.len()
        );
        for refusal in &self.refusals {
            let _ = write!(text, "\n  refused: {refusal}");
        }
        if !self.is_optimized {
            text.push_str("\n  built without optimizations: the figures say nothing of speed");
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        let parts = self.parts.iter().map(|(name, part)| {
            json!({
                "part": name,
                "requests": part.requests,
                "requests_per_second": part.per_second(),
                "p50_us": part.p50,
                "p99_us": part.p99,
                "max_us": part.max,
                "failed": part.failed(),
            })
        });
        let restarts = self.restarts.iter().map(|restart| {
            json!({
                "ended_after_seconds": restart.ended_after.as_secs_f64(),
                "ready_after_seconds": restart.ready_after.as_secs_f64(),
            })
        });
        json!({
            "parts": parts.collect::<Vec<_>>(),
            "restarts": restarts.collect::<Vec<_>>(),
            "confirmed": self.confirmed,
            "lost": self.lost,
            "refused": self.refusals,
            "optimized": self.is_optimized,
        })
    }

    /// # Errors
    /// `Red` if a request failed, or the database lacks what was confirmed.
    pub(super) fn verdict(&self) -> Result<()> {
        if !self.lost.is_empty() {
            let named = &self.lost[..self.lost.len().min(NAMED)];
            return Err(Failure::Red(format!(
                "{} workflows were confirmed and are not there: {named:?}",
                self.lost.len()
            )));
        }
        let failed: u64 = self.parts.iter().map(|(_, part)| part.failed()).sum();
        if failed > 0 {
            return Err(Failure::Red(format!("{failed} requests failed")));
        }
        Ok(())
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
