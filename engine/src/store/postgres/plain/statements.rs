//! The statements of plain writes.

use super::super::sql::{clock, never};

/// The events that go with the writes that are good, from these arrays; of those, where it is said,
/// only the ones that are new. Whether one is new is looked up once for each, before they are
/// joined: the planner, who does not know how many there are, would look for each pair.
macro_rules! add_history {
    ($arrays:literal $(, $new:expr)?) => {
        concat!(
            "events AS MATERIALIZED (
                SELECT * FROM unnest(",
            $arrays,
            ") AS h (write, run_id, seq, type, step_seq, at, details, codec, payload)",
            $($new,)?
            "),
     history AS (
                INSERT INTO workflow_history
                    (run_id, seq, type, step_seq, at, details, codec, payload)
                SELECT h.run_id, h.seq, h.type, h.step_seq, h.at, h.details, h.codec, h.payload
                FROM good JOIN events h ON h.write = good.write)"
        )
    };
}

/// Passes by an event that is there: a repeated one, since the locks keep everybody else away. The
/// first try may commit while this one waits for its lock; then the key refuses the event, and the
/// next try sees it. `ON CONFLICT` would spare that try, and write a record more to the log for
/// every event. A scalar subquery is looked up in the key for each row, whatever the planner
/// believes of the table.
macro_rules! that_is_new {
    () => {
        " WHERE (SELECT true FROM workflow_history o WHERE o.run_id = h.run_id AND o.seq = h.seq)
            IS NULL"
    };
}

/// New runs, if none of their instances is there. One that appears in between is a duplicate key,
/// and the next try finds it.
pub(super) const STARTS: &str = concat!(
    "WITH w AS MATERIALIZED (
        SELECT * FROM unnest($1::int4[], $2::text[], $3::text[], $4::text[], $5::int4[],
            $6::text[], $7::text[], $8::int2[], $9::text[], $10::int8[], $11::int8[], $12::text[],
            $13::int8[], $14::text[], $15::int2[])
        AS w (write, namespace, workflow_id, run_id, run_number, workflow_type, queue, priority,
            compatibility, history_length, due, lease_owner, lease_us, fairness_key,
            fairness_weight)),
     named AS (
        INSERT INTO workflow_instances (namespace, workflow_id, current_run_id, created_at)
        SELECT namespace, workflow_id, run_id, ",
    clock!(),
    "   FROM w WHERE NOT EXISTS (
            SELECT 1 FROM w JOIN workflow_instances i
                ON i.namespace = w.namespace AND i.workflow_id = w.workflow_id)
        ORDER BY namespace, workflow_id
        RETURNING 1),
     clock AS MATERIALIZED (SELECT count(*) AS named, ",
    clock!(),
    " AS now FROM named),
     good AS MATERIALIZED (SELECT w.*, now FROM clock JOIN w ON named > 0),
     runs AS (
        INSERT INTO workflow_runs (run_id, namespace, workflow_id, run_number, workflow_type,
            queue, priority, compatibility, status, history_length, started_at, updated_at,
            fairness_key, fairness_weight)
        SELECT run_id, namespace, workflow_id, run_number, workflow_type, queue, priority,
            compatibility, 'pending', history_length, now, now, fairness_key, fairness_weight
        FROM good),
     tasks AS (
        INSERT INTO workflow_tasks (task_id, task_type, namespace, queue, priority, status,
            available_at, workflow_id, run_id, step_seq, name, compatibility, attempt_count,
            lease_owner, lease_epoch, leased_at, lease_expires_at, created_at, fairness_key,
            fairness_weight)
        SELECT run_id || ':0', 'workflow', namespace, queue, priority,
            CASE WHEN is_leased THEN 'leased' ELSE 'ready' END,
            CASE WHEN due > 0 THEN due ELSE now - due END, workflow_id, run_id, 0, workflow_type,
            compatibility, is_leased::int, lease_owner, is_leased::int,
            CASE WHEN is_leased THEN now END,
            CASE WHEN is_leased THEN least(now + lease_us, ",
    never!(),
    ") END, now, fairness_key, fairness_weight
        FROM (SELECT *, lease_owner IS NOT NULL AS is_leased FROM good) g),
     ",
    add_history!(
        "$16::int4[], $17::text[], $18::int8[], $19::text[], $20::int8[], $21::int8[],
            $22::text[], $23::text[], $24::bytea[]"
    ),
    "
     SELECT now, write, 'started' AS word, 0::int8 AS inbox_seq, 0::int8 AS epoch, namespace, queue,
        CASE WHEN lease_owner IS NULL THEN CASE WHEN due > 0 THEN due ELSE now - due END END
            AS due_at
     FROM good"
);

/// Events of turns that go on, under the locks of their tasks.
pub(super) const APPENDS: &str = concat!(
    "WITH w AS MATERIALIZED (
        SELECT * FROM unnest($1::int4[], $2::text[], $3::int8[], $4::text[], $5::text[])
            AS w (write, task_id, epoch, lease_owner, run_id)),
     tasks AS MATERIALIZED (
        SELECT task_id, run_id, status, lease_owner, lease_epoch, lease_expires_at
        FROM workflow_tasks WHERE task_id = ANY ($2) ORDER BY task_id FOR UPDATE),
     clock AS MATERIALIZED (SELECT count(*) AS locked, ",
    clock!(),
    " AS now FROM tasks),
     good AS MATERIALIZED (
        SELECT w.write, t.run_id FROM clock CROSS JOIN w JOIN tasks t ON t.task_id = w.task_id
        WHERE t.status = 'leased' AND t.lease_owner = w.lease_owner AND t.lease_epoch = w.epoch
            AND t.lease_expires_at > clock.now AND t.run_id = w.run_id),
     ",
    add_history!(
        "$6::int4[], $7::text[], $8::int8[], $9::text[], $10::int8[], $11::int8[], $12::text[],
            $13::text[], $14::bytea[]",
        that_is_new!()
    ),
    "
     SELECT clock.now, w.write, CASE WHEN good.write IS NULL THEN 'lost' ELSE 'done' END AS word,
        coalesce((SELECT r.inbox_seq FROM workflow_runs r WHERE r.run_id = good.run_id), 0)
            AS inbox_seq, 0::int8 AS epoch, NULL AS namespace, NULL AS queue, NULL::int8 AS due_at
     FROM clock CROSS JOIN w LEFT JOIN good ON good.write = w.write"
);

/// Turns, and events of turns that go on, under the locks of their runs and tasks.
///
/// A turn is not plain after all when it is of a run that has a parent or children to tell, or when
/// tasks or messages are there that it does not know: then nothing is written.
///
/// Read without a lock: the children of a run, which only its own turns begin, or one of them as it
/// goes on as another; and its other tasks, of which a new one comes with a turn, or with a message,
/// which the locked run counts. Each is a scalar subquery, which is looked up for each turn: the
/// planner would read the whole table for an `EXISTS`, to look all of them up in its hash.
pub(super) const TURNS: &str = concat!(
    "WITH w AS MATERIALIZED (
        SELECT * FROM unnest($1::int4[], $2::text[], $3::int8[], $4::text[], $5::text[],
            $6::bool[], $7::text[], $8::int8[], $9::int8[], $10::int8[], $11::int8[], $12::text[],
            $13::text[], $14::int8[], $15::text[], $16::text[], $17::text[], $18::bytea[],
            $19::text[])
        AS w (write, task_id, epoch, lease_owner, run_id, of_activity, follows, length_before,
            length_after, drained, due, wait_reason, take_owner, take_us, status, closed_reason,
            output_codec, output, failure)),
     runs AS MATERIALIZED (
        SELECT run_id, namespace, workflow_id, workflow_type, queue, priority, compatibility,
            history_length, inbox_seq, inbox_drained, turn_epoch, parent_run_id, fairness_key,
            fairness_weight
        FROM workflow_runs WHERE run_id = ANY ($20) ORDER BY run_id FOR UPDATE),
     tasks AS MATERIALIZED (
        SELECT task_id, run_id, status, lease_owner, lease_epoch, lease_expires_at
        FROM workflow_tasks WHERE task_id = ANY ($2 || $44::text[]) AND (SELECT count(*) FROM runs) >= 0
        ORDER BY task_id FOR UPDATE),
     clock AS MATERIALIZED (SELECT count(*) AS locked, ",
    clock!(),
    " AS now FROM tasks),
     ended AS MATERIALIZED (
        SELECT e.write, e.task_id, (t.status = 'leased' AND t.lease_owner = e.lease_owner
            AND t.lease_epoch = e.epoch AND t.lease_expires_at > clock.now
            AND t.run_id = w.run_id) IS TRUE AS is_held
        FROM clock CROSS JOIN unnest($43::int4[], $44::text[], $45::int8[], $46::text[])
            AS e (write, task_id, epoch, lease_owner)
        JOIN w ON w.write = e.write LEFT JOIN tasks t ON t.task_id = e.task_id),
     judged AS MATERIALIZED (
        SELECT w.write, clock.now, r.inbox_seq, r.turn_epoch, t.lease_epoch, CASE
            WHEN (t.status = 'leased' AND t.lease_owner = w.lease_owner
                AND t.lease_epoch = w.epoch AND t.lease_expires_at > clock.now
                AND t.run_id = w.run_id) IS NOT TRUE THEN 'lost'
            WHEN w.write IN (SELECT e.write FROM ended e WHERE NOT e.is_held) THEN 'lost'
            WHEN w.follows = 'append' THEN 'done'
            WHEN r.run_id IS NULL THEN 'other'
            WHEN w.of_activity AND (SELECT true FROM workflow_tasks o
                WHERE o.task_id = w.run_id || ':0') THEN 'other'
            WHEN w.of_activity AND (r.history_length <> w.length_before
                OR r.inbox_seq <> w.drained) THEN 'stale'
            WHEN w.follows = 'close' AND (r.parent_run_id IS NOT NULL OR r.inbox_seq > w.drained
                OR (SELECT true FROM workflow_runs c
                    WHERE c.parent_run_id = w.run_id AND c.closed_at IS NULL LIMIT 1)
                OR (SELECT true FROM workflow_tasks o
                    WHERE o.task_id > w.run_id || ':' AND o.task_id < w.run_id || ';'
                        AND o.task_id <> w.task_id AND o.task_id <> ALL ($44::text[]) LIMIT 1))
                THEN 'other'
            WHEN w.follows = 'take' THEN 'taken'
            ELSE 'done' END AS verdict
        FROM clock CROSS JOIN w LEFT JOIN tasks t ON t.task_id = w.task_id
        LEFT JOIN runs r ON r.run_id = w.run_id AND w.follows <> 'append'),
     good AS MATERIALIZED (
        SELECT w.*, j.now, j.lease_epoch, CASE
            WHEN w.follows <> 'wait' THEN NULL
            WHEN j.inbox_seq > w.drained THEN j.now
            WHEN w.due > 0 THEN w.due
            ELSE j.now - w.due END AS due_at
        FROM judged j JOIN w ON w.write = j.write
        WHERE j.verdict IN ('done', 'taken')
            AND NOT EXISTS (SELECT 1 FROM judged o WHERE o.verdict = 'other')),
     put_runs AS (
        UPDATE workflow_runs r SET history_length = g.length_after, inbox_drained = g.drained,
            updated_at = g.now,
            status = CASE g.follows WHEN 'keep' THEN r.status WHEN 'close' THEN g.status
                WHEN 'take' THEN 'running' ELSE
                CASE WHEN g.due_at <= g.now THEN 'running' ELSE 'waiting' END END,
            wait_reason = CASE WHEN g.follows IN ('keep', 'take') THEN r.wait_reason
                ELSE g.wait_reason END,
            turn_epoch = CASE WHEN g.follows = 'wait' AND NOT g.of_activity THEN g.lease_epoch + 1
                ELSE r.turn_epoch END,
            closed_reason = g.closed_reason,
            closed_at = CASE g.follows WHEN 'close' THEN g.now END,
            output_codec = g.output_codec, output = g.output, failure = g.failure
        FROM good g WHERE r.run_id = g.run_id AND g.follows <> 'append'),
     ",
    add_history!(
        "$21::int4[], $22::text[], $23::int8[], $24::text[], $25::int8[], $26::int8[],
            $27::text[], $28::text[], $29::bytea[]",
        that_is_new!()
    ),
    ", inbox AS (
        DELETE FROM workflow_inbox i USING good g, runs r
        WHERE r.run_id = g.run_id AND r.inbox_drained < g.drained
            AND i.run_id = g.run_id AND i.inbox_seq <= g.drained),
     new_tasks AS (
        INSERT INTO workflow_tasks (task_id, task_type, namespace, queue, priority, status,
            available_at, workflow_id, run_id, step_seq, name, compatibility, attempt_count,
            lease_owner, lease_epoch, leased_at, lease_expires_at, created_at, scheduled_seq,
            attempt_id, started_at, heartbeat_at, schedule_to_start_at, schedule_to_close_at,
            start_to_close_us, heartbeat_us, deadline_at, fairness_key, fairness_weight)
        SELECT g.run_id || ':' || a.step_seq, 'activity', r.namespace, a.queue, a.priority,
            CASE WHEN a.lease_owner IS NULL THEN 'ready' ELSE 'leased' END,
            g.now, r.workflow_id, g.run_id, a.step_seq, a.name, r.compatibility,
            (a.lease_owner IS NOT NULL)::int, a.lease_owner, (a.lease_owner IS NOT NULL)::int,
            l.at, CASE WHEN l.at IS NOT NULL THEN least(l.at + a.lease_us, ",
    never!(),
    ") END, g.now, a.scheduled_seq, a.attempt_id, l.at, l.at,
            least(g.now + a.to_start, ",
    never!(),
    "), least(g.now + a.to_close, ",
    never!(),
    "), a.start_to_close_us, a.heartbeat_us,
            least(g.now + a.to_close, ",
    never!(),
    ", CASE WHEN l.at IS NULL THEN g.now + a.to_start END, l.at + a.start_to_close_us,
                l.at + a.heartbeat_us), r.fairness_key, r.fairness_weight
        FROM good g JOIN runs r ON r.run_id = g.run_id
        JOIN unnest($30::int4[], $31::int8[], $32::int8[], $33::text[], $34::text[], $35::int2[],
            $36::int8[], $37::int8[], $38::int8[], $39::int8[], $40::text[], $41::int8[],
            $42::text[])
            AS a (write, step_seq, scheduled_seq, name, queue, priority, to_start, to_close,
                start_to_close_us, heartbeat_us, lease_owner, lease_us, attempt_id)
            ON a.write = g.write
        CROSS JOIN LATERAL (SELECT CASE WHEN a.lease_owner IS NOT NULL THEN g.now END AS at) l
        UNION ALL
        SELECT g.run_id || ':0', 'workflow', r.namespace, r.queue, r.priority,
            CASE g.follows WHEN 'take' THEN 'leased' ELSE 'ready' END,
            coalesce(g.due_at, g.now), r.workflow_id, g.run_id, 0, r.workflow_type,
            r.compatibility, (g.follows = 'take')::int, g.take_owner,
            r.turn_epoch + (g.follows = 'take')::int, l.at,
            CASE WHEN l.at IS NOT NULL THEN least(l.at + g.take_us, ",
    never!(),
    ") END, g.now, NULL, NULL, NULL, NULL, ",
    never!(),
    ", ",
    never!(),
    ", ",
    never!(),
    ", ",
    never!(),
    ", ",
    never!(),
    ", r.fairness_key, r.fairness_weight
        FROM good g JOIN runs r ON r.run_id = g.run_id
        CROSS JOIN LATERAL (SELECT CASE g.follows WHEN 'take' THEN g.now END AS at) l
        WHERE g.of_activity AND (g.follows = 'take' OR g.due_at IS NOT NULL)),
     freed AS (
        UPDATE workflow_tasks t SET status = 'ready', available_at = g.due_at, attempt_count = 0,
            recover_count = 0, lease_owner = NULL, lease_epoch = g.lease_epoch + 1,
            leased_at = NULL, lease_expires_at = NULL, last_error = NULL, created_at = g.now,
            started_at = NULL, heartbeat_at = NULL
        FROM good g
        WHERE t.task_id = g.task_id AND NOT g.of_activity AND g.due_at IS NOT NULL),
     gone AS (
        DELETE FROM workflow_tasks t USING good g
        WHERE t.task_id = g.task_id AND (g.of_activity OR g.follows = 'close'
            OR g.follows = 'wait' AND g.due_at IS NULL)),
     gone_along AS (
        DELETE FROM workflow_tasks t USING ended e, good g
        WHERE t.task_id = e.task_id AND g.write = e.write)
     SELECT j.now, j.write, j.verdict AS word, coalesce(j.inbox_seq,
            (SELECT r.inbox_seq FROM workflow_runs r WHERE r.run_id = w.run_id), 0) AS inbox_seq,
        coalesce(j.turn_epoch + 1, 0) AS epoch, r.namespace, r.queue, g.due_at
     FROM judged j JOIN w ON w.write = j.write LEFT JOIN good g ON g.write = j.write
     LEFT JOIN runs r ON r.run_id = g.run_id"
);

/// Ends of activities, under the locks of their runs and tasks. Messages for one run get places one
/// after the other; its workflow task is made due, or made. One that came while its run was waited
/// for is a duplicate key, and the next try finds it.
pub(super) const SETTLES: &str = concat!(
    "WITH w AS MATERIALIZED (
        SELECT * FROM unnest($1::int4[], $2::text[], $3::int8[], $4::text[], $5::text[],
            $6::text[], $7::int8[], $8::int8[], $9::text[], $10::text[], $11::bytea[])
        AS w (write, task_id, epoch, lease_owner, run_id, type, step_seq, at, details, codec,
            payload)),
     runs AS MATERIALIZED (
        SELECT run_id, namespace, workflow_id, workflow_type, queue, priority, compatibility,
            inbox_seq, turn_epoch, closed_at, fairness_key, fairness_weight
        FROM workflow_runs WHERE run_id = ANY ($5) ORDER BY run_id FOR UPDATE),
     tasks AS MATERIALIZED (
        SELECT task_id, run_id, status, available_at, lease_owner, lease_epoch, lease_expires_at
        FROM workflow_tasks WHERE task_id = ANY ($12) AND (SELECT count(*) FROM runs) >= 0
        ORDER BY task_id FOR UPDATE),
     clock AS MATERIALIZED (SELECT count(*) AS locked, ",
    clock!(),
    " AS now FROM tasks),
     judged AS MATERIALIZED (
        SELECT w.write, w.run_id, CASE
            WHEN (t.status = 'leased' AND t.lease_owner = w.lease_owner
                AND t.lease_epoch = w.epoch AND t.lease_expires_at > clock.now
                AND t.run_id = w.run_id) IS NOT TRUE THEN 'lost'
            WHEN r.run_id IS NULL OR r.closed_at IS NOT NULL THEN 'other'
            ELSE 'done' END AS verdict
        FROM clock CROSS JOIN w LEFT JOIN tasks t ON t.task_id = w.task_id
        LEFT JOIN runs r ON r.run_id = w.run_id),
     good AS MATERIALIZED (
        SELECT w.*, clock.now,
            r.inbox_seq + row_number() OVER (PARTITION BY w.run_id ORDER BY w.write) AS place
        FROM clock CROSS JOIN judged j JOIN w ON w.write = j.write
        JOIN runs r ON r.run_id = w.run_id
        WHERE j.verdict = 'done' AND NOT EXISTS (SELECT 1 FROM judged o WHERE o.verdict = 'other')),
     told AS MATERIALIZED (
        SELECT g.run_id, g.now, max(g.place) AS inbox_seq, CASE
            WHEN t.task_id IS NULL THEN 'new'
            WHEN t.status = 'ready' THEN 'ready' END AS turn
        FROM good g LEFT JOIN tasks t ON t.task_id = g.run_id || ':0'
        GROUP BY g.run_id, g.now, t.task_id, t.status),
     put_runs AS (
        UPDATE workflow_runs r SET inbox_seq = told.inbox_seq, status = 'running',
            updated_at = told.now
        FROM told WHERE r.run_id = told.run_id),
     inbox AS (
        INSERT INTO workflow_inbox (run_id, inbox_seq, type, step_seq, at, details, codec, payload)
        SELECT run_id, place, type, step_seq, at, details, codec, payload FROM good),
     gone AS (
        DELETE FROM workflow_tasks t USING good g WHERE t.task_id = g.task_id),
     sooner AS (
        UPDATE workflow_tasks t SET available_at = told.now FROM told
        WHERE t.task_id = told.run_id || ':0' AND told.turn = 'ready'
            AND t.available_at > told.now),
     turns AS (
        INSERT INTO workflow_tasks (task_id, task_type, namespace, queue, priority, status,
            available_at, workflow_id, run_id, step_seq, name, compatibility, lease_epoch,
            created_at, fairness_key, fairness_weight)
        SELECT r.run_id || ':0', 'workflow', r.namespace, r.queue, r.priority, 'ready', told.now,
            r.workflow_id, r.run_id, 0, r.workflow_type, r.compatibility, r.turn_epoch, told.now,
            r.fairness_key, r.fairness_weight
        FROM told JOIN runs r ON r.run_id = told.run_id WHERE told.turn = 'new')
     SELECT clock.now, w.write, j.verdict AS word, coalesce(g.place, 0) AS inbox_seq,
        0::int8 AS epoch, r.namespace, r.queue,
        CASE WHEN told.turn IS NOT NULL THEN clock.now END AS due_at
     FROM clock CROSS JOIN w JOIN judged j ON j.write = w.write
     LEFT JOIN good g ON g.write = w.write LEFT JOIN told ON told.run_id = g.run_id
     LEFT JOIN runs r ON r.run_id = g.run_id"
);

#[cfg(test)]
mod tests;
