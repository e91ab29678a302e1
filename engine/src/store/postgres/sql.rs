//! The statements of a batch. Rows go in as one array a column: one statement, whatever their
//! number.

use super::super::rows::{run_columns, task_columns};

/// Now, in microseconds: not the beginning of the transaction, which a wait for a lock leaves behind.
macro_rules! clock {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
    };
}
pub(super) use clock;

/// An instant that does not come.
macro_rules! never {
    () => {
        "4611686018427387904"
    };
}
pub(super) use never;

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
     SELECT w.namespace, w.workflow_id, w.current_run_id, ",
    clock!(),
    " FROM unnest($1::text[], $2::text[], $3::text[]) AS w (namespace, workflow_id, current_run_id)
     ON CONFLICT DO NOTHING"
);

pub(super) const READ_INSTANCES: &str = "
    SELECT i.namespace, i.workflow_id, i.current_run_id,
           EXISTS (SELECT 1 FROM workflow_runs r WHERE r.run_id = i.current_run_id) AS has_run
    FROM unnest($1::text[], $2::text[]) AS w (namespace, workflow_id)
    JOIN workflow_instances i ON i.namespace = w.namespace AND i.workflow_id = w.workflow_id";

pub(super) const READ_KIN: &str = "
    SELECT parent_run_id AS run_id, run_id AS kin_id FROM workflow_runs
    WHERE parent_run_id = ANY ($1) AND closed_at IS NULL
    UNION ALL
    SELECT run_id, parent_run_id FROM workflow_runs
    WHERE run_id = ANY ($1) AND parent_run_id IS NOT NULL";

pub(super) const LOCK_RUNS: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM workflow_runs WHERE run_id = ANY ($1) ORDER BY run_id FOR UPDATE"
);

pub(super) const LOCK_TASKS: &str = concat!(
    "SELECT ",
    task_columns!(),
    " FROM workflow_tasks WHERE task_id = ANY ($1) ORDER BY task_id FOR UPDATE"
);

/// All tasks of runs. They lie between the run's id with a colon and its id with what follows a
/// colon.
pub(super) const READ_TASKS_OF: &str = "
    SELECT t.task_id FROM unnest($1::text[]) AS w (run_id)
    JOIN workflow_tasks t
        ON t.task_id > w.run_id || ':' AND t.task_id < w.run_id || ';' AND t.run_id = w.run_id";

pub(super) const READ_TIPS: &str = "
    SELECT r.run_id, r.inbox_seq, coalesce(
        (SELECT max(h.seq) FROM workflow_history h WHERE h.run_id = r.run_id), 0) AS history
    FROM workflow_runs r WHERE r.run_id = ANY ($1)";

pub(super) const READ_COMMANDS: &str = "
    SELECT c.namespace, c.workflow_id, c.kind, c.request_id, c.run_id
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
        AS w (namespace, workflow_id, kind, request_id)
    JOIN workflow_commands c ON c.namespace = w.namespace AND c.workflow_id = w.workflow_id
        AND c.kind = w.kind AND c.request_id = w.request_id";

pub(super) const DROP_INSTANCES: &str = "
    DELETE FROM workflow_instances i USING unnest($1::text[], $2::text[], $3::text[])
        AS w (namespace, workflow_id, current_run_id)
    WHERE i.namespace = w.namespace AND i.workflow_id = w.workflow_id";

pub(super) const PUT_INSTANCES: &str = "
    UPDATE workflow_instances i SET current_run_id = w.current_run_id
    FROM unnest($1::text[], $2::text[], $3::text[]) AS w (namespace, workflow_id, current_run_id)
    WHERE i.namespace = w.namespace AND i.workflow_id = w.workflow_id";

pub(super) const PUT_RUNS: &str = concat!(
    "INSERT INTO workflow_runs (",
    run_columns!(),
    ") SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::int4[], $5::text[], $6::text[],
        $7::int2[], $8::text[], $9::text[], $10::text[], $11::text[], $12::int8[], $13::int8[],
        $14::int8[], $15::int8[], $16::text[], $17::int8[], $18::text[], $19::text[], $20::int8[],
        $21::int8[], $22::int8[], $23::text[], $24::bytea[], $25::text[], $26::int8[], $27::text[],
        $28::int2[], $29::text[])
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
    SELECT * FROM unnest($1::text[], $2::int8[], $3::text[], $4::int8[], $5::int8[], $6::text[],
        $7::text[], $8::bytea[])
    ON CONFLICT DO NOTHING";

pub(super) const ADD_INBOX: &str = "
    INSERT INTO workflow_inbox (run_id, inbox_seq, type, step_seq, at, details, codec, payload)
    SELECT * FROM unnest($1::text[], $2::int8[], $3::text[], $4::int8[], $5::int8[], $6::text[],
        $7::text[], $8::bytea[])";

pub(super) const TAKE_INBOX: &str = "
    DELETE FROM workflow_inbox i USING unnest($1::text[], $2::int8[]) AS w (run_id, taken)
    WHERE i.run_id = w.run_id AND i.inbox_seq <= w.taken";

pub(super) const MOVE_INBOX: &str = "
    UPDATE workflow_inbox i SET run_id = w.next
    FROM unnest($1::text[], $2::text[]) AS w (run_id, next) WHERE i.run_id = w.run_id";

pub(super) const PUT_TASKS: &str = concat!(
    "INSERT INTO workflow_tasks (",
    task_columns!(),
    ") SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::int2[], $6::text[],
        $7::int8[], $8::text[], $9::text[], $10::int8[], $11::text[], $12::text[], $13::int4[],
        $14::int4[], $15::text[], $16::int8[], $17::int8[], $18::int8[], $19::text[], $20::text[],
        $21::int8[], $22::int8[], $23::text[], $24::int8[], $25::int8[], $26::text[],
        $27::bytea[], $28::int8[], $29::int8[], $30::int8[], $31::int8[], $32::int8[], $33::text[],
        $34::int2[])
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

pub(super) const DROP_TASKS: &str = "DELETE FROM workflow_tasks WHERE task_id = ANY ($1)";

pub(super) const ADD_ATTEMPTS: &str = "
    INSERT INTO activity_attempts
        (attempt_id, task_id, run_id, attempt, lease_owner, outcome, failure, ended_at)
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::int4[], $5::text[], $6::text[],
        $7::text[], $8::int8[])
    ON CONFLICT DO NOTHING";

pub(super) const ADD_COMMANDS: &str = concat!(
    "INSERT INTO workflow_commands (namespace, workflow_id, kind, request_id, run_id, at)
     SELECT w.*, ",
    clock!(),
    " FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) AS w"
);

pub(super) const DROP_ATTRIBUTES: &str = "DELETE FROM workflow_attributes WHERE run_id = ANY ($1)";

pub(super) const ADD_ATTRIBUTES: &str = "
    INSERT INTO workflow_attributes
        (run_id, name, place, namespace, kind, text_value, integer_value, float_value)
    SELECT * FROM unnest($1::text[], $2::text[], $3::int4[], $4::text[], $5::text[], $6::text[],
        $7::int8[], $8::float8[])";

pub(super) const PUT_MEMOS: &str = "
    INSERT INTO workflow_memos (run_id, memo) SELECT * FROM unnest($1::text[], $2::text[])
    ON CONFLICT (run_id) DO UPDATE SET memo = excluded.memo";
