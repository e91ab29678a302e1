-- Schedules: when to start which workflow, again and again.
CREATE TABLE workflow_schedules (
    namespace       TEXT NOT NULL,
    schedule_id     TEXT NOT NULL,
    -- One more with each write: whoever writes compares it.
    revision        INTEGER NOT NULL,
    -- active, paused
    status          TEXT NOT NULL,
    workflow_type   TEXT NOT NULL,
    -- When it fires by itself next; 2^62 when it does not.
    next_fire_at    INTEGER NOT NULL,
    -- When it is to be looked at next: then, or zero while something waits for a workflow to end.
    look_at         INTEGER NOT NULL,
    -- How many occurrences wait for a workflow to end.
    buffered_actions INTEGER NOT NULL,
    fires_total     INTEGER NOT NULL,
    missed_total    INTEGER NOT NULL,
    skipped_total   INTEGER NOT NULL,
    -- JSON objects.
    definition      TEXT NOT NULL,
    state           TEXT NOT NULL,
    -- What each workflow is given.
    codec           TEXT NOT NULL,
    payload         BLOB NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    PRIMARY KEY (namespace, schedule_id)
) STRICT;
CREATE INDEX workflow_schedules_due ON workflow_schedules (look_at, namespace, schedule_id)
    WHERE look_at < 4611686018427387904;

-- The latest fires of each schedule. An occurrence fires once.
CREATE TABLE workflow_schedule_fires (
    namespace       TEXT NOT NULL,
    schedule_id     TEXT NOT NULL,
    occurrence_at   INTEGER NOT NULL,
    fire_number     INTEGER NOT NULL,
    -- schedule, trigger, backfill
    cause           TEXT NOT NULL,
    workflow_id     TEXT NOT NULL,
    run_id          TEXT NOT NULL,
    fired_at        INTEGER NOT NULL,
    PRIMARY KEY (namespace, schedule_id, occurrence_at)
) STRICT, WITHOUT ROWID;
