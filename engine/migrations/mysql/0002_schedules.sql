-- Schedules: when to start which workflow, again and again.
CREATE TABLE IF NOT EXISTS workflow_schedules (
    namespace       VARCHAR(255) NOT NULL,
    schedule_id     VARCHAR(255) NOT NULL,
    -- One more with each write: whoever writes compares it.
    revision        BIGINT NOT NULL,
    -- active, paused
    status          VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    workflow_type   VARCHAR(255) NOT NULL,
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
    definition      LONGTEXT NOT NULL,
    state           LONGTEXT NOT NULL,
    -- What each workflow is given.
    codec           VARCHAR(255) NOT NULL,
    payload         LONGBLOB NOT NULL,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    PRIMARY KEY (namespace, schedule_id),
    INDEX workflow_schedules_due (look_at, namespace, schedule_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The latest fires of each schedule. An occurrence fires once.
CREATE TABLE IF NOT EXISTS workflow_schedule_fires (
    namespace       VARCHAR(255) NOT NULL,
    schedule_id     VARCHAR(255) NOT NULL,
    occurrence_at   BIGINT NOT NULL,
    fire_number     BIGINT NOT NULL,
    -- schedule, trigger, backfill
    cause           VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    workflow_id     VARCHAR(255) NOT NULL,
    run_id          VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    fired_at        BIGINT NOT NULL,
    PRIMARY KEY (namespace, schedule_id, occurrence_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
