//! What goes.

use std::collections::BTreeSet;

use super::tables::Tables;
use crate::store::{Retire, Tenant, portion};

impl Tables {
    pub(super) fn retire(&mut self, retire: &Retire) -> u64 {
        let is_due = |closed_at| self.now.since(closed_at) >= retire.closed_for;
        let mut due: Vec<_> = self
            .runs
            .values()
            .filter(|row| row.run.namespace == retire.namespace)
            .filter_map(|row| Some((row.run.closed_at?, &row.run)))
            .filter(|(closed_at, _)| is_due(*closed_at))
            .map(|(closed_at, run)| ((closed_at, run.run.clone()), run.history_length))
            .collect();
        due.sort();
        let going = portion(due, retire);
        for (_, run) in &going {
            self.runs.remove(run);
            self.tasks.retain(|_, task| task.run != *run);
            self.attempts.retain(|attempt| attempt.run != *run);
            self.receipts.retain(|_, reached| reached != run);
            self.current.retain(|_, current| current != run);
        }
        going.len() as u64
    }

    pub(super) fn tenants(&self) -> Vec<Tenant> {
        let names: BTreeSet<_> = self
            .current
            .keys()
            .map(|(namespace, _)| namespace)
            .collect();
        let tenants = names.into_iter().map(|namespace| Tenant {
            namespace: namespace.clone(),
            retention: self.retentions.get(namespace).copied(),
        });
        tenants.collect()
    }
}
