//! The statements of a batch. Rows go in as JSON: one statement, whatever their number.

use super::super::rows::{run_columns, task_columns};

/// Now, in microseconds; the clock of SQLite counts milliseconds.
macro_rules! clock {
    () => {
        "(CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000)"
    };
}
pub(super) use clock;

/// The columns of an event, under the names of its row.
macro_rules! event_columns {
    () => {
        "h.run_id, h.seq, h.type AS kind, h.step_seq, h.at, h.details, h.codec, h.payload"
    };
}
pub(super) use event_columns;

pub(super) const CLOCK: &str = concat!("SELECT ", clock!());

pub(super) const NAME_INSTANCES: &str = concat!(
    "INSERT INTO workflow_instances (namespace, workflow_id, current_run_id, created_at)
     SELECT value->>'namespace', value->>'workflow_id', value->>'current_run_id', ",
    clock!(),
    " FROM json_each(?1) WHERE true ON CONFLICT DO NOTHING"
);

pub(super) const READ_INSTANCES: &str = "
    SELECT i.namespace, i.workflow_id, i.current_run_id,
           EXISTS (SELECT 1 FROM workflow_runs r WHERE r.run_id = i.current_run_id) AS has_run
    FROM json_each(?1) w
    JOIN workflow_instances i ON i.namespace = w.value->>0 AND i.workflow_id = w.value->>1";

pub(super) const READ_KIN: &str = "
    SELECT parent_run_id AS run_id, run_id AS kin_id FROM workflow_runs
    WHERE parent_run_id IN (SELECT value FROM json_each(?1)) AND closed_at IS NULL
    UNION ALL
    SELECT run_id, parent_run_id FROM workflow_runs
    WHERE run_id IN (SELECT value FROM json_each(?1)) AND parent_run_id IS NOT NULL";

pub(super) const LOCK_RUNS: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM workflow_runs WHERE run_id IN (SELECT value FROM json_each(?1))"
);

pub(super) const LOCK_TASKS: &str = concat!(
    "SELECT ",
    task_columns!(),
    " FROM workflow_tasks WHERE task_id IN (SELECT value FROM json_each(?1))
     UNION ALL SELECT ",
    task_columns!(),
    // All tasks of a run lie between its id with a colon and its id with what follows a colon.
    " FROM json_each(?2) w JOIN workflow_tasks
     ON task_id > w.value || ':' AND task_id < w.value || ';' AND run_id = w.value"
);

pub(super) const READ_TIPS: &str = "
    SELECT r.run_id, r.inbox_seq, coalesce(
        (SELECT max(h.seq) FROM workflow_history h WHERE h.run_id = r.run_id), 0) AS history
    FROM workflow_runs r WHERE r.run_id IN (SELECT value FROM json_each(?1))";

pub(super) const READ_COMMANDS: &str = "
    SELECT c.namespace, c.workflow_id, c.kind, c.request_id, c.run_id
    FROM json_each(?1) w
    JOIN workflow_commands c ON c.namespace = w.value->>'namespace'
        AND c.workflow_id = w.value->>'workflow_id' AND c.kind = w.value->>'kind'
        AND c.request_id = w.value->>'request_id'";

pub(super) const DROP_INSTANCES: &str = "
    DELETE FROM workflow_instances WHERE (namespace, workflow_id) IN
        (SELECT value->>'namespace', value->>'workflow_id' FROM json_each(?1))";

pub(super) const PUT_INSTANCES: &str = "
    UPDATE workflow_instances SET current_run_id = w.value->>'current_run_id'
    FROM json_each(?1) w
    WHERE namespace = w.value->>'namespace' AND workflow_id = w.value->>'workflow_id'";

pub(super) const PUT_RUNS: &str = concat!(
    "INSERT INTO workflow_runs (",
    run_columns!(),
    ") SELECT value->>'run_id', value->>'namespace', value->>'workflow_id', value->>'run_number',
        value->>'workflow_type', value->>'queue', value->>'priority', value->>'compatibility',
        value->>'status', value->>'wait_reason', value->>'closed_reason', value->>'history_length',
        value->>'inbox_seq', value->>'inbox_drained', value->>'turn_epoch', value->>'parent_run_id',
        value->>'parent_step_seq', value->>'parent_close', value->>'continued_to',
        value->>'started_at', value->>'updated_at', value->>'closed_at', value->>'output_codec',
        unhex(value->>'output'), value->>'failure', value->>'buffered_signals',
        value->>'fairness_key', value->>'fairness_weight', value->>'fingerprint'
     FROM json_each(?1) WHERE true
     ON CONFLICT (run_id) DO UPDATE SET
        status = excluded.status, wait_reason = excluded.wait_reason,
        closed_reason = excluded.closed_reason, history_length = excluded.history_length,
        inbox_seq = excluded.inbox_seq, inbox_drained = excluded.inbox_drained,
        turn_epoch = excluded.turn_epoch, continued_to = excluded.continued_to,
        updated_at = excluded.updated_at, closed_at = excluded.closed_at,
        output_codec = excluded.output_codec, output = excluded.output, failure = excluded.failure,
        buffered_signals = excluded.buffered_signals, fingerprint = excluded.fingerprint"
);

pub(super) const ADD_HISTORY: &str = "
    INSERT INTO workflow_history (run_id, seq, type, step_seq, at, details, codec, payload)
    SELECT value->>'run_id', value->>'seq', value->>'kind', value->>'step_seq', value->>'at',
        value->>'details', value->>'codec', unhex(value->>'payload')
    FROM json_each(?1) WHERE true ON CONFLICT DO NOTHING";

pub(super) const ADD_INBOX: &str = "
    INSERT INTO workflow_inbox (run_id, inbox_seq, type, step_seq, at, details, codec, payload)
    SELECT value->>'run_id', value->>'seq', value->>'kind', value->>'step_seq', value->>'at',
        value->>'details', value->>'codec', unhex(value->>'payload')
    FROM json_each(?1)";

pub(super) const TAKE_INBOX: &str = "
    DELETE FROM workflow_inbox WHERE (run_id, inbox_seq) IN
        (SELECT i.run_id, i.inbox_seq FROM json_each(?1) w
         JOIN workflow_inbox i ON i.run_id = w.value->>0 AND i.inbox_seq <= w.value->>1)";

pub(super) const MOVE_INBOX: &str = "
    UPDATE workflow_inbox SET run_id = w.value->>1
    FROM json_each(?1) w WHERE run_id = w.value->>0";

pub(super) const PUT_TASKS: &str = concat!(
    "INSERT INTO workflow_tasks (",
    task_columns!(),
    ") SELECT value->>'task_id', value->>'task_type', value->>'namespace', value->>'queue',
        value->>'priority', value->>'status', value->>'available_at', value->>'workflow_id',
        value->>'run_id', value->>'step_seq', value->>'name', value->>'compatibility',
        value->>'attempt_count', value->>'recover_count', value->>'lease_owner',
        value->>'lease_epoch', value->>'leased_at', value->>'lease_expires_at',
        value->>'blocked_reason', value->>'last_error', value->>'created_at',
        value->>'scheduled_seq', value->>'attempt_id', value->>'started_at', value->>'heartbeat_at',
        value->>'heartbeat_codec', unhex(value->>'heartbeat_payload'),
        value->>'schedule_to_start_at', value->>'schedule_to_close_at',
        value->>'start_to_close_us', value->>'heartbeat_us', value->>'deadline_at',
        value->>'fairness_key', value->>'fairness_weight'
     FROM json_each(?1) WHERE true
     ON CONFLICT (task_id) DO UPDATE SET
        status = excluded.status, available_at = excluded.available_at,
        attempt_count = excluded.attempt_count, recover_count = excluded.recover_count,
        lease_owner = excluded.lease_owner, lease_epoch = excluded.lease_epoch,
        leased_at = excluded.leased_at, lease_expires_at = excluded.lease_expires_at,
        blocked_reason = excluded.blocked_reason, last_error = excluded.last_error,
        created_at = excluded.created_at, attempt_id = excluded.attempt_id,
        started_at = excluded.started_at, heartbeat_at = excluded.heartbeat_at,
        heartbeat_codec = excluded.heartbeat_codec, heartbeat_payload = excluded.heartbeat_payload,
        deadline_at = excluded.deadline_at"
);

pub(super) const DROP_TASKS: &str =
    "DELETE FROM workflow_tasks WHERE task_id IN (SELECT value FROM json_each(?1))";

pub(super) const ADD_ATTEMPTS: &str = "
    INSERT INTO activity_attempts
        (attempt_id, task_id, run_id, attempt, lease_owner, outcome, failure, ended_at)
    SELECT value->>'attempt_id', value->>'task_id', value->>'run_id', value->>'attempt',
        value->>'lease_owner', value->>'outcome', value->>'failure', value->>'ended_at'
    FROM json_each(?1) WHERE true ON CONFLICT DO NOTHING";

pub(super) const ADD_COMMANDS: &str = concat!(
    "INSERT INTO workflow_commands (namespace, workflow_id, kind, request_id, run_id, at)
     SELECT value->>'namespace', value->>'workflow_id', value->>'kind', value->>'request_id',
        value->>'run_id', ",
    clock!(),
    " FROM json_each(?1)"
);

pub(super) const DROP_ATTRIBUTES: &str =
    "DELETE FROM workflow_attributes WHERE run_id IN (SELECT value FROM json_each(?1))";

pub(super) const ADD_ATTRIBUTES: &str = "
    INSERT INTO workflow_attributes
        (run_id, name, place, namespace, kind, text_value, integer_value, float_value)
    SELECT value->>'run_id', value->>'name', value->>'place', value->>'namespace', value->>'kind',
        value->>'text_value', value->>'integer_value', value->>'float_value'
    FROM json_each(?1)";

pub(super) const PUT_MEMOS: &str = "
    INSERT INTO workflow_memos (run_id, memo) SELECT value->>'run_id', value->>'memo'
    FROM json_each(?1) WHERE true ON CONFLICT (run_id) DO UPDATE SET memo = excluded.memo";

#[cfg(test)]
mod tests;
