//! The live view: one bar for the records, one line for the nodes.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::tally::Tally;

/// Drawn on the error stream, and only where that is a terminal.
pub(crate) struct View {
    all: MultiProgress,
    records: ProgressBar,
    nodes: ProgressBar,
}

impl View {
    pub(crate) fn new(records: usize) -> Self {
        let all = MultiProgress::new();
        let bar = ProgressStyle::with_template("  {bar:40} {pos}/{len} archives")
            .expect("the template is well formed");
        let line = ProgressStyle::with_template("  {msg}").expect("the template is well formed");
        let records = all.add(ProgressBar::new(records as u64).with_style(bar));
        let nodes = all.add(ProgressBar::new_spinner().with_style(line));
        Self {
            all,
            records,
            nodes,
        }
    }

    /// Prints a line above the bars, also where there is no terminal.
    pub(crate) fn say(&self, text: &str) {
        if self.all.is_hidden() {
            eprintln!("xtask: {text}");
        } else {
            // A terminal that cannot be written to shows nothing else either.
            let _ = self.all.println(format!("xtask: {text}"));
        }
    }

    pub(crate) fn show(&self, tally: &Tally) {
        self.records.set_position(tally.done() as u64);
        let nodes: Vec<_> = tally
            .read()
            .iter()
            .map(|(node, read)| {
                let ticks = tally.ticks().get(node).copied().unwrap_or(0);
                let state = if tally.killed() == Some(*node) {
                    " (killed)"
                } else {
                    ""
                };
                format!("node {node}{state}: {ticks} ticks, {read} read")
            })
            .collect();
        self.nodes.set_message(nodes.join("   "));
    }

    pub(crate) fn finish(&self) {
        self.records.finish_and_clear();
        self.nodes.finish_and_clear();
    }
}
