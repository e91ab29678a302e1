//! A snapshot in the text format of Prometheus.

use std::fmt::Write;

use super::Snapshot;

/// What of a snapshot is of all processes together, as gauges: one of them is enough to scrape.
///
/// What a process does itself it counts as signals, which its own exporter serves; these have other
/// names. A queue is a label here, so whoever makes a queue for each customer had better drop it when
/// scraping.
struct Exposition(String);

impl Snapshot {
    /// The text format of Prometheus: runs, queues with their depth and age, nodes, workers, roles,
    /// schedules, and what all processes did in the last minute.
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        let mut to = Exposition(String::new());
        to.runs(self);
        to.queues(self);
        to.refusals(self);
        to.fleet(self);
        to.rest(self);
        to.0
    }
}

impl Exposition {
    fn family(&mut self, name: &str, help: &str) {
        // Writing to a text does not fail.
        _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} gauge");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.labelled(name, labels);
        _ = writeln!(self.0, " {value}");
    }

    /// A span, which Prometheus has in seconds.
    fn span(&mut self, name: &str, labels: &[(&str, &str)], millis: u64) {
        self.labelled(name, labels);
        _ = writeln!(self.0, " {}.{:03}", millis / 1000, millis % 1000);
    }

    fn labelled(&mut self, name: &str, labels: &[(&str, &str)]) {
        self.0.push_str(name);
        for (place, (label, value)) in labels.iter().enumerate() {
            self.0.push(if place == 0 { '{' } else { ',' });
            let value = value
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            _ = write!(self.0, "{label}=\"{value}\"");
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
    }

    fn runs(&mut self, of: &Snapshot) {
        let runs_name = "engine_runs";
        let runs = &of.runs;
        self.family(runs_name, "Runs that are kept, by where they stand.");
        for (status, count) in [
            ("pending", runs.pending),
            ("running", runs.running),
            ("waiting", runs.waiting),
            ("completed", runs.completed),
            ("failed", runs.failed),
            ("cancelled", runs.cancelled),
            ("terminated", runs.terminated),
            ("timed_out", runs.timed_out),
            ("continued_as_new", runs.continued_as_new),
        ] {
            self.sample(runs_name, &[("status", status)], count);
        }
        let stuck_name = "engine_runs_stuck";
        self.family(stuck_name, "Open runs that do not go on by themselves.");
        for (reason, count) in [
            ("replay", runs.blocked_replay),
            ("poison", runs.blocked_poison),
            ("imported", runs.blocked_imported),
            ("compatibility", runs.compatibility_blocked),
            ("repair", runs.repair_needed),
        ] {
            self.sample(stuck_name, &[("reason", reason)], count);
        }
        let archived_name = "engine_runs_archived";
        self.family(
            archived_name,
            "Closed runs whose history is kept elsewhere.",
        );
        self.sample(archived_name, &[], runs.archived);
        let age_name = "engine_runs_oldest_age_seconds";
        self.family(age_name, "Age of the oldest run that is so.");
        for (what, age) in [
            ("open", runs.max_open_age_ms),
            ("waiting", runs.max_wait_age_ms),
            ("blocked", runs.max_blocked_age_ms),
            ("repair", runs.max_repair_needed_age_ms),
            ("compatibility", of.backlog.max_compatibility_blocked_age_ms),
        ] {
            self.span(age_name, &[("of", what)], age);
        }
    }

    fn queues(&mut self, of: &Snapshot) {
        let tasks_name = "engine_queue_tasks";
        self.family(tasks_name, "Open tasks of a queue, by state.");
        for queue in &of.queues {
            for (state, count) in [
                ("due", queue.ready_due),
                ("delayed", queue.delayed),
                ("leased", queue.leased),
                ("blocked", queue.blocked),
            ] {
                let labels = [
                    ("namespace", queue.namespace.as_str()),
                    ("queue", queue.queue.as_str()),
                    ("kind", queue.kind),
                    ("state", state),
                ];
                self.sample(tasks_name, &labels, count);
            }
        }
        let age_name = "engine_queue_oldest_due_age_seconds";
        self.family(
            age_name,
            "For how long the first task of a queue has been due.",
        );
        for queue in &of.queues {
            let labels = [
                ("namespace", queue.namespace.as_str()),
                ("queue", queue.queue.as_str()),
                ("kind", queue.kind),
            ];
            self.span(age_name, &labels, queue.max_ready_due_age_ms);
        }
        let workers_name = "engine_queue_workers";
        self.family(
            workers_name,
            "Live workers that serve a queue in which tasks are.",
        );
        for queue in &of.queues {
            let labels = [
                ("namespace", queue.namespace.as_str()),
                ("queue", queue.queue.as_str()),
                ("kind", queue.kind),
            ];
            self.sample(workers_name, &labels, queue.workers);
        }
    }

    fn refusals(&mut self, of: &Snapshot) {
        let tasks_name = "engine_tasks_refused";
        let help = "Tasks that may be claimed and are not, by what keeps them.";
        self.family(tasks_name, help);
        for refusal in &of.refusals {
            let labels = [("reason", refusal.reason.as_str())];
            self.sample(tasks_name, &labels, refusal.tasks);
        }
        let age_name = "engine_tasks_refused_oldest_age_seconds";
        self.family(age_name, "For how long the first of them has been due.");
        for refusal in &of.refusals {
            let labels = [("reason", refusal.reason.as_str())];
            self.span(age_name, &labels, refusal.max_age_ms);
        }
    }

    fn fleet(&mut self, of: &Snapshot) {
        let done_name = "engine_fleet_last_minute";
        let fleet = &of.fleet;
        self.family(done_name, "What all processes did in the last minute.");
        for (what, count) in [
            ("runs_started", of.runs.started_last_minute),
            ("runs_closed", of.runs.closed_last_minute),
            ("workflow_tasks_claimed", fleet.workflow_tasks_claimed),
            ("activity_tasks_claimed", fleet.activity_tasks_claimed),
            ("tasks_taken_along", fleet.tasks_taken_along),
            ("tasks_added", fleet.tasks_added),
            ("workflow_tasks_done", fleet.workflow_tasks_done),
            ("activity_tasks_done", fleet.activity_tasks_done),
            ("attempts_failed", fleet.attempts_failed),
            ("looks_by_hint", fleet.looks_by_hint),
            ("looks_by_hint_with_work", fleet.looks_by_hint_with_work),
            ("looks_by_hand", fleet.looks_by_hand),
            ("looks_by_hand_with_work", fleet.looks_by_hand_with_work),
            ("looks_by_due", fleet.looks_by_due),
            ("looks_by_due_with_work", fleet.looks_by_due_with_work),
            ("looks_by_time", fleet.looks_by_time),
            ("looks_by_time_with_work", fleet.looks_by_time_with_work),
            ("run_cache_hits", fleet.run_cache_hits),
            ("run_cache_misses", fleet.run_cache_misses),
            ("writes_lost", fleet.writes_lost),
            ("calls_failed", fleet.calls_failed),
            ("tasks_recovered", fleet.tasks_recovered),
        ] {
            self.sample(done_name, &[("what", what)], count);
        }
        let spans_name = "engine_fleet_slowest_seconds";
        let help = "Quantiles of the last minute, of the process in which they are longest.";
        self.family(spans_name, help);
        for (what, spans) in [
            ("pickup", fleet.pickup),
            ("call", fleet.calls),
            ("commit", fleet.commits),
        ] {
            for (quantile, millis) in [("0.5", spans.p50_ms), ("0.99", spans.p99_ms)] {
                self.span(spans_name, &[("of", what), ("quantile", quantile)], millis);
            }
        }
        let connections_name = "engine_fleet_connections";
        self.family(
            connections_name,
            "Connections of all processes to the database.",
        );
        let connections = fleet.connections;
        for (state, count) in [
            ("busy", connections.open.saturating_sub(connections.idle)),
            ("idle", connections.idle),
            ("most", connections.most),
        ] {
            self.sample(connections_name, &[("state", state)], u64::from(count));
        }
    }

    fn rest(&mut self, of: &Snapshot) {
        let nodes_name = "engine_nodes";
        self.family(nodes_name, "Processes that count as alive.");
        let draining = of.nodes.iter().filter(|node| node.is_draining).count() as u64;
        let working = of.nodes.len() as u64 - draining;
        self.sample(nodes_name, &[("state", "live")], working);
        self.sample(nodes_name, &[("state", "draining")], draining);
        let workers_name = "engine_workers";
        self.family(workers_name, "Workers whose process counts as alive.");
        self.sample(workers_name, &[], of.workers.active_workers);
        let roles_name = "engine_role_held";
        self.family(
            roles_name,
            "Whether somebody does for all what the role is for.",
        );
        for role in &of.roles {
            self.sample(roles_name, &[("role", role.role)], u64::from(role.is_held));
        }
        let schedules_name = "engine_schedules";
        self.family(schedules_name, "Schedules, by state.");
        for (state, count) in [
            ("active", of.schedules.active),
            ("paused", of.schedules.paused),
            ("overdue", of.schedules.overdue),
        ] {
            self.sample(schedules_name, &[("state", state)], count);
        }
        let kept_name = "engine_retention_overdue_seconds";
        self.family(
            kept_name,
            "By how much closed runs of a namespace are past their retention.",
        );
        for namespace in &of.namespaces {
            let labels = [("namespace", namespace.namespace.as_str())];
            self.span(kept_name, &labels, namespace.max_retention_overdue_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_labels_are_escaped_and_spans_are_in_seconds() {
        let mut to = Exposition(String::new());

        to.family("f", "Help.");
        to.sample("f", &[("a", "x\"y\\z\n"), ("b", "c")], 7);
        to.span("f", &[], 1045);

        let expected =
            "# HELP f Help.\n# TYPE f gauge\nf{a=\"x\\\"y\\\\z\\n\",b=\"c\"} 7\nf 1.045\n";
        assert_eq!(to.0, expected);
    }
}
