//! `coord history`.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use coord_core::Error;
use coord_engine::model::History as Exported;
use coord_engine::transition::RunState;
use serde_json::{Value, json};

use super::exit::{Failure, NOT_WELL};
use super::show::{Shown, table};

#[derive(Subcommand)]
pub(crate) enum History {
    /// Checks that files are histories which this version reads: each event follows from those
    /// before it. Whether code of today follows them is for the tests of that code to say.
    Verify(Verify),
}

#[derive(Args)]
pub(crate) struct Verify {
    /// What `coord runs history ID --json` printed.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

impl History {
    pub(super) fn run(self) -> Result<Shown, Failure> {
        match self {
            Self::Verify(verify) => verify.run(),
        }
    }
}

/// What became of a file.
struct Verdict {
    file: String,
    /// The workflow and how many events it has, or why it is none.
    found: Result<(String, usize), String>,
}

impl Verify {
    fn run(self) -> Result<Shown, Failure> {
        let mut verdicts = Vec::new();
        for file in self.files {
            let text = fs::read_to_string(&file).map_err(|error| {
                Error::invalid(format!("reading {}", file.display())).with_source(error)
            })?;
            verdicts.push(Verdict {
                file: file.display().to_string(),
                found: verified(&text),
            });
        }
        Ok(shown(&verdicts))
    }
}

fn verified(text: &str) -> Result<(String, usize), String> {
    let history = Exported::from_json(text).map_err(|error| error.message().to_owned())?;
    let events = history.events();
    for (at, event) in (1..).zip(events) {
        if event.seq != at {
            return Err(format!("event {at} is missing: {} follows", event.seq));
        }
    }
    RunState::fold(events).map_err(|error| error.message().to_owned())?;
    Ok((history.started().workflow.to_string(), events.len()))
}

fn shown(verdicts: &[Verdict]) -> Shown {
    let documents: Vec<Value> = verdicts
        .iter()
        .map(|verdict| match &verdict.found {
            Ok((workflow, events)) => json!({
                "file": verdict.file, "holds": true, "workflow": workflow, "events": events,
            }),
            Err(why) => json!({ "file": verdict.file, "holds": false, "reason": why }),
        })
        .collect();
    let rows = verdicts.iter().map(|verdict| match &verdict.found {
        Ok((workflow, events)) => {
            let what = format!("{events} events of {workflow}");
            [verdict.file.clone(), "holds".to_owned(), what]
        }
        Err(why) => [verdict.file.clone(), "broken".to_owned(), why.clone()],
    });
    let text = table(["FILE", "HISTORY", "WHAT"], rows);
    let is_well = verdicts.iter().all(|verdict| verdict.found.is_ok());
    Shown::new(json!({ "histories": documents }), text).ending(if is_well { 0 } else { NOT_WELL })
}
