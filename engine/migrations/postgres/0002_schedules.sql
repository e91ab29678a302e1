-- Schedules: when to start which workflow, again and again.
CREATE TABLE workflow_schedules (
    namespace       TEXT COLLATE "C" NOT NULL,
    schedule_id     TEXT COLLATE "C" NOT NULL,
    -- One more with each write: whoever writes compares it.
    revision        BIGINT NOT NULL,
    -- active, paused
    status          TEXT COLLATE "C" NOT NULL,
    workflow_type   TEXT COLLATE "C" NOT NULL,
    -- When it fires by itself next; 2^62 when it does not.
    next_fire_at    BIGINT NOT NULL,
    -- When it is to be looked at next: then, or zero while something waits for a workflow to end.
    look_at         BIGINT NOT NULL,
    -- How many occurrences wait for a workflow to end.
    buffered_actions BIGINT NOT NULL,
    fires_total     BIGINT NOT NULL,
    missed_total    BIGINT NOT NULL,
    skipped_total   BIGINT NOT NULL,
    -- JSON objects.
    definition      TEXT NOT NULL,
    state           TEXT NOT NULL,
    -- What each workflow is given.
    codec           TEXT NOT NULL,
    payload         BYTEA NOT NULL,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    PRIMARY KEY (namespace, schedule_id)
) WITH (fillfactor = 70);
CREATE INDEX workflow_schedules_due ON workflow_schedules (look_at, namespace, schedule_id)
    WHERE look_at < 4611686018427387904;

-- The latest fires of each schedule. An occurrence fires once.
CREATE TABLE workflow_schedule_fires (
    namespace       TEXT COLLATE "C" NOT NULL,
    schedule_id     TEXT COLLATE "C" NOT NULL,
    occurrence_at   BIGINT NOT NULL,
    fire_number     BIGINT NOT NULL,
    -- schedule, trigger, backfill
    cause           TEXT COLLATE "C" NOT NULL,
    workflow_id     TEXT COLLATE "C" NOT NULL,
    run_id          TEXT COLLATE "C" NOT NULL,
    fired_at        BIGINT NOT NULL,
    PRIMARY KEY (namespace, schedule_id, occurrence_at)
);
