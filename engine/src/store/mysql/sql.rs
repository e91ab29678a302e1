//! The statements of a batch. Rows go in as JSON: one statement, whatever their number.
//!
//! `STRAIGHT_JOIN` keeps the order of the joins: the given ids first, in their order, then one look
//! at the primary key for each. So locks are taken in the order of the ids, and on no other rows.
//!
//! `MySQL` locks a table of JSON like another unless it is told what to lock, and refuses. `MariaDB`
//! locks none, does not know how to be told, and skips comments with numbers of `MySQL` 8.
//!
//! Text says its character set, or it would pass through that of the database, which may be latin1.

use super::super::rows::{run_columns, task_columns};

/// Now, in microseconds, read when this is reached: `NOW` would be the beginning of the statement,
/// which a wait for a lock leaves behind.
macro_rules! clock {
    () => {
        "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))"
    };
}
pub(super) use clock;

/// The ids of a statement's first argument.
macro_rules! ids {
    () => {
        "JSON_TABLE(?, '$[*]' COLUMNS (id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PATH '$')) w"
    };
}
pub(super) use ids;

/// The columns of an event, under the names of its row.
macro_rules! event_columns {
    () => {
        "h.run_id, h.seq, h.`type` AS kind, h.step_seq, h.at, h.details, h.codec, h.payload"
    };
}
pub(super) use event_columns;

pub(super) const CLOCK: &str = concat!("SELECT ", clock!());

pub(super) const NAME_INSTANCES: &str = concat!(
    "INSERT INTO workflow_instances (namespace, workflow_id, current_run_id, created_at)
     SELECT w.namespace, w.workflow_id, w.current_run_id, ",
    clock!(),
    " FROM JSON_TABLE(?, '$[*]' COLUMNS (
        namespace VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.namespace',
        workflow_id VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.workflow_id',
        current_run_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PATH '$.current_run_id')) w
     ON DUPLICATE KEY UPDATE created_at = workflow_instances.created_at"
);

pub(super) const READ_INSTANCES: &str = "
    SELECT STRAIGHT_JOIN i.namespace, i.workflow_id, i.current_run_id,
           EXISTS (SELECT 1 FROM workflow_runs r WHERE r.run_id = i.current_run_id) AS has_run
    FROM JSON_TABLE(?, '$[*]' COLUMNS (
        namespace VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[0]',
        workflow_id VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[1]')) w
    JOIN workflow_instances i FORCE INDEX (PRIMARY)
        ON i.namespace = w.namespace AND i.workflow_id = w.workflow_id";

pub(super) const READ_KIN: &str = concat!(
    "SELECT STRAIGHT_JOIN r.parent_run_id AS run_id, r.run_id AS kin_id FROM ",
    ids!(),
    " JOIN workflow_runs r FORCE INDEX (workflow_runs_children) ON r.parent_run_id = w.id
      WHERE r.closed_at IS NULL
     UNION ALL
     SELECT STRAIGHT_JOIN r.run_id, r.parent_run_id FROM ",
    ids!(),
    " JOIN workflow_runs r FORCE INDEX (PRIMARY) ON r.run_id = w.id
      WHERE r.parent_run_id IS NOT NULL"
);

pub(super) const LOCK_RUNS: &str = concat!(
    "SELECT STRAIGHT_JOIN ",
    run_columns!(),
    " FROM ",
    ids!(),
    " JOIN workflow_runs r FORCE INDEX (PRIMARY) ON r.run_id = w.id FOR UPDATE /*!80000 OF r */"
);

pub(super) const LOCK_TASKS: &str = concat!(
    "SELECT STRAIGHT_JOIN ",
    task_columns!(),
    " FROM ",
    ids!(),
    " JOIN workflow_tasks t FORCE INDEX (PRIMARY) ON t.task_id = w.id FOR UPDATE /*!80000 OF t */"
);

/// All tasks of runs. They lie between the run's id with a colon and its id with what follows a
/// colon.
pub(super) const READ_TASKS_OF: &str = concat!(
    "SELECT STRAIGHT_JOIN t.task_id FROM ",
    ids!(),
    " JOIN workflow_tasks t FORCE INDEX (PRIMARY)
        ON t.task_id > concat(w.id, ':') AND t.task_id < concat(w.id, ';') AND t.run_id = w.id"
);

pub(super) const READ_TIPS: &str = concat!(
    "SELECT STRAIGHT_JOIN r.run_id, r.inbox_seq, coalesce(
        (SELECT max(h.seq) FROM workflow_history h WHERE h.run_id = r.run_id), 0) AS history
     FROM ",
    ids!(),
    " JOIN workflow_runs r FORCE INDEX (PRIMARY) ON r.run_id = w.id"
);

pub(super) const READ_COMMANDS: &str = "
    SELECT STRAIGHT_JOIN c.namespace, c.workflow_id, c.kind,
        CONVERT(c.request_id USING utf8mb4) AS request_id, c.run_id
    FROM JSON_TABLE(?, '$[*]' COLUMNS (
        namespace VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.namespace',
        workflow_id VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.workflow_id',
        kind VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PATH '$.kind',
        request_id VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.request_id')) w
    JOIN workflow_commands c FORCE INDEX (PRIMARY)
        ON c.namespace = w.namespace AND c.workflow_id = w.workflow_id
        AND c.kind = w.kind AND c.request_id = CAST(w.request_id AS BINARY)";

pub(super) const DROP_INSTANCES: &str = "
    DELETE i FROM JSON_TABLE(?, '$[*]' COLUMNS (
            namespace VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.namespace',
            workflow_id VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.workflow_id',
            current_run_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PATH '$.current_run_id')) w
    STRAIGHT_JOIN workflow_instances i FORCE INDEX (PRIMARY)
        ON i.namespace = w.namespace AND i.workflow_id = w.workflow_id";

pub(super) const PUT_INSTANCES: &str = "
    UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
            namespace VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.namespace',
            workflow_id VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.workflow_id',
            current_run_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PATH '$.current_run_id')) w
    STRAIGHT_JOIN workflow_instances i FORCE INDEX (PRIMARY)
        ON i.namespace = w.namespace AND i.workflow_id = w.workflow_id
    SET i.current_run_id = w.current_run_id";

pub(super) const PUT_RUNS: &str = concat!(
    "INSERT INTO workflow_runs (",
    run_columns!(),
    ") SELECT w.`run_id`, w.`namespace`, w.`workflow_id`, w.`run_number`, w.`workflow_type`,
        w.`queue`, w.`priority`, w.`compatibility`, w.`status`, w.`wait_reason`,
        w.`closed_reason`, w.`history_length`, w.`inbox_seq`, w.`inbox_drained`,
        w.`turn_epoch`, w.`parent_run_id`, w.`parent_step_seq`, w.`parent_close`,
        w.`continued_to`, w.`started_at`, w.`updated_at`, w.`closed_at`, w.`output_codec`,
        unhex(w.`output`), w.`failure`, w.`buffered_signals`, w.`fairness_key`,
        w.`fairness_weight`, w.`fingerprint`
     FROM JSON_TABLE(?, '$[*]' COLUMNS (
            `run_id` LONGTEXT CHARACTER SET utf8mb4 PATH '$.run_id',
            `namespace` LONGTEXT CHARACTER SET utf8mb4 PATH '$.namespace',
            `workflow_id` LONGTEXT CHARACTER SET utf8mb4 PATH '$.workflow_id',
            `run_number` BIGINT PATH '$.run_number',
            `workflow_type` LONGTEXT CHARACTER SET utf8mb4 PATH '$.workflow_type',
            `queue` LONGTEXT CHARACTER SET utf8mb4 PATH '$.queue',
            `priority` BIGINT PATH '$.priority',
            `compatibility` LONGTEXT CHARACTER SET utf8mb4 PATH '$.compatibility',
            `status` LONGTEXT CHARACTER SET utf8mb4 PATH '$.status',
            `wait_reason` LONGTEXT CHARACTER SET utf8mb4 PATH '$.wait_reason',
            `closed_reason` LONGTEXT CHARACTER SET utf8mb4 PATH '$.closed_reason',
            `history_length` BIGINT PATH '$.history_length',
            `inbox_seq` BIGINT PATH '$.inbox_seq',
            `inbox_drained` BIGINT PATH '$.inbox_drained',
            `turn_epoch` BIGINT PATH '$.turn_epoch',
            `parent_run_id` LONGTEXT CHARACTER SET utf8mb4 PATH '$.parent_run_id',
            `parent_step_seq` BIGINT PATH '$.parent_step_seq',
            `parent_close` LONGTEXT CHARACTER SET utf8mb4 PATH '$.parent_close',
            `continued_to` LONGTEXT CHARACTER SET utf8mb4 PATH '$.continued_to',
            `started_at` BIGINT PATH '$.started_at',
            `updated_at` BIGINT PATH '$.updated_at',
            `closed_at` BIGINT PATH '$.closed_at',
            `output_codec` LONGTEXT CHARACTER SET utf8mb4 PATH '$.output_codec',
            `output` LONGTEXT CHARACTER SET utf8mb4 PATH '$.output',
            `failure` LONGTEXT CHARACTER SET utf8mb4 PATH '$.failure',
            `buffered_signals` BIGINT PATH '$.buffered_signals',
            `fairness_key` LONGTEXT CHARACTER SET utf8mb4 PATH '$.fairness_key',
            `fairness_weight` BIGINT PATH '$.fairness_weight',
            `fingerprint` LONGTEXT CHARACTER SET utf8mb4 PATH '$.fingerprint')) w
     ON DUPLICATE KEY UPDATE
        status = VALUES(status), wait_reason = VALUES(wait_reason),
        closed_reason = VALUES(closed_reason), history_length = VALUES(history_length),
        inbox_seq = VALUES(inbox_seq), inbox_drained = VALUES(inbox_drained),
        turn_epoch = VALUES(turn_epoch), continued_to = VALUES(continued_to),
        updated_at = VALUES(updated_at), closed_at = VALUES(closed_at),
        output_codec = VALUES(output_codec), output = VALUES(output),
        failure = VALUES(failure), buffered_signals = VALUES(buffered_signals),
        fingerprint = VALUES(fingerprint)"
);

pub(super) const ADD_HISTORY: &str = "
    INSERT INTO workflow_history (run_id, seq, `type`, step_seq, at, details, codec, payload)
    SELECT w.`run_id`, w.`seq`, w.`kind`, w.`step_seq`, w.`at`, w.`details`, w.`codec`,
        unhex(w.`payload`)
    FROM JSON_TABLE(?, '$[*]' COLUMNS (
            `run_id` LONGTEXT CHARACTER SET utf8mb4 PATH '$.run_id',
            `seq` BIGINT PATH '$.seq',
            `kind` LONGTEXT CHARACTER SET utf8mb4 PATH '$.kind',
            `step_seq` BIGINT PATH '$.step_seq',
            `at` BIGINT PATH '$.at',
            `details` LONGTEXT CHARACTER SET utf8mb4 PATH '$.details',
            `codec` LONGTEXT CHARACTER SET utf8mb4 PATH '$.codec',
            `payload` LONGTEXT CHARACTER SET utf8mb4 PATH '$.payload')) w
    ON DUPLICATE KEY UPDATE at = workflow_history.at";

pub(super) const ADD_INBOX: &str = "
    INSERT INTO workflow_inbox (run_id, inbox_seq, `type`, step_seq, at, details, codec, payload)
    SELECT w.`run_id`, w.`seq`, w.`kind`, w.`step_seq`, w.`at`, w.`details`, w.`codec`,
        unhex(w.`payload`)
    FROM JSON_TABLE(?, '$[*]' COLUMNS (
            `run_id` LONGTEXT CHARACTER SET utf8mb4 PATH '$.run_id',
            `seq` BIGINT PATH '$.seq',
            `kind` LONGTEXT CHARACTER SET utf8mb4 PATH '$.kind',
            `step_seq` BIGINT PATH '$.step_seq',
            `at` BIGINT PATH '$.at',
            `details` LONGTEXT CHARACTER SET utf8mb4 PATH '$.details',
            `codec` LONGTEXT CHARACTER SET utf8mb4 PATH '$.codec',
            `payload` LONGTEXT CHARACTER SET utf8mb4 PATH '$.payload')) w";

pub(super) const TAKE_INBOX: &str = "
    DELETE i FROM JSON_TABLE(?, '$[*]' COLUMNS (
        run_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]', taken BIGINT PATH '$[1]')) w
    STRAIGHT_JOIN workflow_inbox i FORCE INDEX (PRIMARY)
        ON i.run_id = w.run_id AND i.inbox_seq <= w.taken";

pub(super) const MOVE_INBOX: &str = "
    UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
        run_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]',
        next VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PATH '$[1]')) w
    STRAIGHT_JOIN workflow_inbox i FORCE INDEX (PRIMARY) ON i.run_id = w.run_id
    SET i.run_id = w.next";

pub(super) const PUT_TASKS: &str = concat!(
    "INSERT INTO workflow_tasks (",
    task_columns!(),
    ") SELECT w.`task_id`, w.`task_type`, w.`namespace`, w.`queue`, w.`priority`, w.`status`,
        w.`available_at`, w.`workflow_id`, w.`run_id`, w.`step_seq`, w.`name`,
        w.`compatibility`, w.`attempt_count`, w.`recover_count`, w.`lease_owner`,
        w.`lease_epoch`, w.`leased_at`, w.`lease_expires_at`, w.`blocked_reason`,
        w.`last_error`, w.`created_at`, w.`scheduled_seq`, w.`attempt_id`, w.`started_at`,
        w.`heartbeat_at`, w.`heartbeat_codec`, unhex(w.`heartbeat_payload`),
        w.`schedule_to_start_at`, w.`schedule_to_close_at`, w.`start_to_close_us`,
        w.`heartbeat_us`, w.`deadline_at`, w.`fairness_key`, w.`fairness_weight`
     FROM JSON_TABLE(?, '$[*]' COLUMNS (
            `task_id` LONGTEXT CHARACTER SET utf8mb4 PATH '$.task_id',
            `task_type` LONGTEXT CHARACTER SET utf8mb4 PATH '$.task_type',
            `namespace` LONGTEXT CHARACTER SET utf8mb4 PATH '$.namespace',
            `queue` LONGTEXT CHARACTER SET utf8mb4 PATH '$.queue',
            `priority` BIGINT PATH '$.priority',
            `status` LONGTEXT CHARACTER SET utf8mb4 PATH '$.status',
            `available_at` BIGINT PATH '$.available_at',
            `workflow_id` LONGTEXT CHARACTER SET utf8mb4 PATH '$.workflow_id',
            `run_id` LONGTEXT CHARACTER SET utf8mb4 PATH '$.run_id',
            `step_seq` BIGINT PATH '$.step_seq',
            `name` LONGTEXT CHARACTER SET utf8mb4 PATH '$.name',
            `compatibility` LONGTEXT CHARACTER SET utf8mb4 PATH '$.compatibility',
            `attempt_count` BIGINT PATH '$.attempt_count',
            `recover_count` BIGINT PATH '$.recover_count',
            `lease_owner` LONGTEXT CHARACTER SET utf8mb4 PATH '$.lease_owner',
            `lease_epoch` BIGINT PATH '$.lease_epoch',
            `leased_at` BIGINT PATH '$.leased_at',
            `lease_expires_at` BIGINT PATH '$.lease_expires_at',
            `blocked_reason` LONGTEXT CHARACTER SET utf8mb4 PATH '$.blocked_reason',
            `last_error` LONGTEXT CHARACTER SET utf8mb4 PATH '$.last_error',
            `created_at` BIGINT PATH '$.created_at',
            `scheduled_seq` BIGINT PATH '$.scheduled_seq',
            `attempt_id` LONGTEXT CHARACTER SET utf8mb4 PATH '$.attempt_id',
            `started_at` BIGINT PATH '$.started_at',
            `heartbeat_at` BIGINT PATH '$.heartbeat_at',
            `heartbeat_codec` LONGTEXT CHARACTER SET utf8mb4 PATH '$.heartbeat_codec',
            `heartbeat_payload` LONGTEXT CHARACTER SET utf8mb4 PATH '$.heartbeat_payload',
            `schedule_to_start_at` BIGINT PATH '$.schedule_to_start_at',
            `schedule_to_close_at` BIGINT PATH '$.schedule_to_close_at',
            `start_to_close_us` BIGINT PATH '$.start_to_close_us',
            `heartbeat_us` BIGINT PATH '$.heartbeat_us',
            `deadline_at` BIGINT PATH '$.deadline_at',
            `fairness_key` LONGTEXT CHARACTER SET utf8mb4 PATH '$.fairness_key',
            `fairness_weight` BIGINT PATH '$.fairness_weight')) w
     ON DUPLICATE KEY UPDATE
        status = VALUES(status), available_at = VALUES(available_at),
        attempt_count = VALUES(attempt_count), recover_count = VALUES(recover_count),
        lease_owner = VALUES(lease_owner), lease_epoch = VALUES(lease_epoch),
        leased_at = VALUES(leased_at), lease_expires_at = VALUES(lease_expires_at),
        blocked_reason = VALUES(blocked_reason), last_error = VALUES(last_error),
        created_at = VALUES(created_at), attempt_id = VALUES(attempt_id),
        started_at = VALUES(started_at), heartbeat_at = VALUES(heartbeat_at),
        heartbeat_codec = VALUES(heartbeat_codec),
        heartbeat_payload = VALUES(heartbeat_payload), deadline_at = VALUES(deadline_at)"
);

pub(super) const DROP_TASKS: &str = concat!(
    "DELETE t FROM ",
    ids!(),
    " STRAIGHT_JOIN workflow_tasks t FORCE INDEX (PRIMARY) ON t.task_id = w.id"
);

pub(super) const ADD_ATTEMPTS: &str = "
    INSERT INTO activity_attempts
        (attempt_id, task_id, run_id, attempt, lease_owner, outcome, failure, ended_at)
    SELECT w.`attempt_id`, w.`task_id`, w.`run_id`, w.`attempt`, w.`lease_owner`, w.`outcome`,
        w.`failure`, w.`ended_at`
    FROM JSON_TABLE(?, '$[*]' COLUMNS (
            `attempt_id` LONGTEXT CHARACTER SET utf8mb4 PATH '$.attempt_id',
            `task_id` LONGTEXT CHARACTER SET utf8mb4 PATH '$.task_id',
            `run_id` LONGTEXT CHARACTER SET utf8mb4 PATH '$.run_id',
            `attempt` BIGINT PATH '$.attempt',
            `lease_owner` LONGTEXT CHARACTER SET utf8mb4 PATH '$.lease_owner',
            `outcome` LONGTEXT CHARACTER SET utf8mb4 PATH '$.outcome',
            `failure` LONGTEXT CHARACTER SET utf8mb4 PATH '$.failure',
            `ended_at` BIGINT PATH '$.ended_at')) w
    ON DUPLICATE KEY UPDATE attempt = activity_attempts.attempt";

pub(super) const ADD_COMMANDS: &str = concat!(
    "INSERT INTO workflow_commands (namespace, workflow_id, kind, request_id, run_id, at)
     SELECT w.`namespace`, w.`workflow_id`, w.`kind`, w.`request_id`, w.`run_id`, ",
    clock!(),
    " FROM JSON_TABLE(?, '$[*]' COLUMNS (
            `namespace` LONGTEXT CHARACTER SET utf8mb4 PATH '$.namespace',
            `workflow_id` LONGTEXT CHARACTER SET utf8mb4 PATH '$.workflow_id',
            `kind` LONGTEXT CHARACTER SET utf8mb4 PATH '$.kind',
            `request_id` LONGTEXT CHARACTER SET utf8mb4 PATH '$.request_id',
            `run_id` LONGTEXT CHARACTER SET utf8mb4 PATH '$.run_id')) w"
);

pub(super) const DROP_ATTRIBUTES: &str = concat!(
    "DELETE a FROM ",
    ids!(),
    " STRAIGHT_JOIN workflow_attributes a FORCE INDEX (PRIMARY) ON a.run_id = w.id"
);

pub(super) const ADD_ATTRIBUTES: &str = "
    INSERT INTO workflow_attributes
        (run_id, name, place, namespace, kind, text_value, integer_value, float_value)
    SELECT w.`run_id`, w.`name`, w.`place`, w.`namespace`, w.`kind`, w.`text_value`,
        w.`integer_value`, w.`float_value`
    FROM JSON_TABLE(?, '$[*]' COLUMNS (
            `run_id` LONGTEXT CHARACTER SET utf8mb4 PATH '$.run_id',
            `name` LONGTEXT CHARACTER SET utf8mb4 PATH '$.name',
            `place` BIGINT PATH '$.place',
            `namespace` LONGTEXT CHARACTER SET utf8mb4 PATH '$.namespace',
            `kind` LONGTEXT CHARACTER SET utf8mb4 PATH '$.kind',
            `text_value` LONGTEXT CHARACTER SET utf8mb4 PATH '$.text_value',
            `integer_value` BIGINT PATH '$.integer_value',
            `float_value` DOUBLE PATH '$.float_value')) w";

pub(super) const PUT_MEMOS: &str = "
    INSERT INTO workflow_memos (run_id, memo) SELECT w.`run_id`, w.`memo`
    FROM JSON_TABLE(?, '$[*]' COLUMNS (
            `run_id` LONGTEXT CHARACTER SET utf8mb4 PATH '$.run_id',
            `memo` LONGTEXT CHARACTER SET utf8mb4 PATH '$.memo')) w
    ON DUPLICATE KEY UPDATE memo = VALUES(memo)";

#[cfg(test)]
mod tests;
