//! What a benchmark found, as a table and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use crate::statistics::{Spread, median};

/// What one benchmark found.
#[derive(Debug, Serialize)]
pub struct Table {
    /// What it is about.
    pub title: String,
    /// On what it was measured.
    pub server: String,
    /// The load averages before it.
    pub load: Vec<f64>,
    pub notes: Vec<String>,
    pub rows: Vec<Row>,
}

/// Ours beside one peer.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub work: String,
    pub peer: String,
    pub unit: &'static str,
    pub ours: Spread,
    pub theirs: Spread,
    /// Ours by the peer's.
    pub ratio: f64,
    pub target: Option<Target>,
    pub met: Option<bool>,
    pub our_cost: Cost,
    pub their_cost: Cost,
}

/// What one piece of work costs.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Cost {
    /// Calls of the server, each a round trip unless they are pipelined.
    pub round_trips: Option<f64>,
    /// Microseconds of the server's CPU.
    pub server_us: Option<f64>,
    /// Of these, in the command or script itself.
    pub executing_us: Option<f64>,
    /// Microseconds of the client's CPU.
    pub client_us: Option<f64>,
}

impl Cost {
    /// What a round costs in the middle of them; nothing where no round knows.
    pub fn median(rounds: impl Iterator<Item = Self> + Clone) -> Self {
        let of = |pick: fn(&Self) -> Option<f64>| {
            let mut known = rounds.clone().filter_map(|cost| pick(&cost)).peekable();
            known.peek().is_some().then(|| median(known))
        };
        Self {
            round_trips: of(|cost| cost.round_trips),
            server_us: of(|cost| cost.server_us),
            executing_us: of(|cost| cost.executing_us),
            client_us: of(|cost| cost.client_us),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    RatioAtLeast(f64),
    RatioAtMost(f64),
    OursAtMost(f64),
}

impl Row {
    /// The row with its target, and whether it is met.
    pub fn aim(mut self, target: Target) -> Self {
        let met = match target {
            Target::RatioAtLeast(bound) => self.ratio >= bound,
            Target::RatioAtMost(bound) => self.ratio <= bound,
            Target::OursAtMost(bound) => self.ours.median <= bound,
        };
        self.target = Some(target);
        self.met = Some(met);
        self
    }

    fn cells(&self) -> [String; 9] {
        let target = match self.target {
            None => String::new(),
            Some(Target::RatioAtLeast(bound)) => format!("ratio >= {bound}"),
            Some(Target::RatioAtMost(bound)) => format!("ratio <= {bound}"),
            Some(Target::OursAtMost(bound)) => format!("ours <= {bound}"),
        };
        let met = match self.met {
            None => "",
            Some(true) => "met",
            Some(false) => "NOT MET",
        };
        let ratio = if self.ratio.is_finite() {
            format!("{:.2}", self.ratio)
        } else {
            String::new()
        };
        let both = |pick: fn(&Cost) -> Option<f64>| {
            let side = |cost| pick(cost).map_or_else(|| "-".to_owned(), number);
            let sides = (side(&self.our_cost), side(&self.their_cost));
            match sides {
                (ours, theirs) if ours == "-" && theirs == "-" => String::new(),
                (ours, theirs) => format!("{ours} / {theirs}"),
            }
        };
        [
            self.work.clone(),
            spread(&self.ours),
            format!("{}: {}", self.peer, spread(&self.theirs)),
            self.unit.to_owned(),
            ratio,
            target,
            met.to_owned(),
            both(|cost| cost.round_trips),
            both(|cost| cost.server_us),
        ]
    }
}

impl Table {
    pub fn text(&self) -> String {
        const HEAD: [&str; 9] = [
            "work",
            "ours (min-max)",
            "peer (min-max)",
            "unit",
            "ratio",
            "target",
            "",
            "round trips",
            "server us",
        ];
        let mut lines = vec![HEAD.map(str::to_owned)];
        lines.extend(self.rows.iter().map(Row::cells));
        let width = |column: usize| {
            let widths = lines.iter().map(|line| line[column].chars().count());
            widths.max().unwrap_or_default()
        };
        let widths: [usize; 9] = std::array::from_fn(width);
        let mut text = format!("\n{}\n", self.title);
        for line in &lines {
            let cells = line.iter().zip(widths);
            let cells: Vec<_> = cells
                .map(|(cell, width)| format!("{cell:width$}"))
                .collect();
            writeln!(text, "  {}", cells.join("  ").trim_end()).expect("a String takes all");
        }
        for note in &self.notes {
            writeln!(text, "  {note}").expect("a String takes all");
        }
        text
    }
}

fn spread(spread: &Spread) -> String {
    let Spread { median, min, max } = *spread;
    if min.to_bits() == max.to_bits() {
        return number(median);
    }
    format!("{} ({}-{})", number(median), number(min), number(max))
}

/// Three digits that mean something, and no more than a table can hold.
fn number(value: f64) -> String {
    match value {
        value if !value.is_finite() => "-".to_owned(),
        value if value >= 10_000.0 => format!("{:.1}k", value / 1000.0),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
