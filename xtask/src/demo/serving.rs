//! The nodes after the run: up, and behind the control plane.

use crate::error::{Failure, Result};
use crate::interrupt::Interrupts;

use super::nodes::Nodes;
use super::tally::Tally;

/// Says where the nodes are and what to try, and waits for Ctrl-C.
///
/// # Errors
/// `Red` if a node ends by itself.
pub(super) fn serve(
    nodes: &mut Nodes<'_>,
    tally: &Tally,
    interrupts: &mut Interrupts,
) -> Result<()> {
    let plan = nodes.plan();
    let places: Vec<_> = tally.living_serving().collect();
    let record = plan.input.records.first().map_or("", String::as_str);
    // That of a server may have a password in it, and whoever gave it knows it.
    let database = match plan.database.feature {
        None => &plan.database.url,
        Some(_) => "(the URL that this was given)",
    };
    eprintln!("{}", offer(&places, &plan.run, database, record));
    loop {
        match interrupts.check() {
            Err(Failure::Interrupted(_)) => return Ok(()),
            checked => checked?,
        }
        // What they go on to say is heard, so that they can say it.
        if nodes.next().is_none() {
            nodes.check(tally)?;
        }
    }
}

/// What a person at another terminal may try.
fn offer(places: &[(u8, &str)], run: &str, database: &str, record: &str) -> String {
    let listed = places
        .iter()
        .map(|(node, address)| format!("  node {node}  http://{address}"))
        .collect::<Vec<_>>()
        .join("\n");
    let one = places.first().map_or("", |(_, address)| address);
    let other = places.last().map_or("", |(_, address)| address);
    format!(
        "
The nodes that live go on, behind the control plane. They ask nobody for a token, and serve this
machine alone:

{listed}

In another terminal:

  # one archive more, by HTTP
  curl -sS http://{one}/api/workflows -H 'content-type: application/json' -H 'x-namespace: {run}' \\
    -d '{{\"workflow_type\": \"crates.audit\", \"workflow_id\": \"again\", \"input\": [\"{record}\"]}}'
  # what became of it, from another node
  curl -sS http://{other}/api/workflows/again -H 'x-namespace: {run}'
  # the command line asks no node: it looks at the database itself
  export DATABASE_URL='{database}' DW_V2_NAMESPACE='{run}'
  cargo run -q -p coord-server -- runs list
  cargo run -q -p coord-server -- runs history again

Ctrl-C ends them, and all that was started with them."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_offered_names_the_nodes_the_run_and_one_of_its_archives() {
        let places = [(1, "127.0.0.1:4001"), (3, "127.0.0.1:4003")];

        let said = offer(&places, "run-7", "sqlite:work.db", "serde-1.0.0");

        for part in [
            "node 3  http://127.0.0.1:4003\n\n",
            "curl -sS http://127.0.0.1:4001/api/workflows ",
            "-d '{\"workflow_type\": \"crates.audit\", \"workflow_id\": \"again\", \"input\": [\"serde-1.0.0\"]}'",
            "http://127.0.0.1:4003/api/workflows/again -H 'x-namespace: run-7'",
            "DATABASE_URL='sqlite:work.db' DW_V2_NAMESPACE='run-7'",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
