-- The engine's tables. Times are integers: microseconds since 1970, UTC, of this server's clock; an
-- instant that does not come is 4611686018427387904 (2^62). Ids compare byte by byte; a
-- request id is binary, so that the key of a command fits into an index. Every statement
-- can be repeated: here a schema does not change in a transaction.

-- What callers named.
CREATE TABLE IF NOT EXISTS workflow_instances (
    namespace       VARCHAR(255) NOT NULL,
    workflow_id     VARCHAR(255) NOT NULL,
    current_run_id  VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    created_at      BIGINT NOT NULL,
    PRIMARY KEY (namespace, workflow_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Executions.
CREATE TABLE IF NOT EXISTS workflow_runs (
    run_id          VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,
    namespace       VARCHAR(255) NOT NULL,
    workflow_id     VARCHAR(255) NOT NULL,
    run_number      INTEGER NOT NULL,
    workflow_type   VARCHAR(255) NOT NULL,
    queue           VARCHAR(255) NOT NULL,
    priority        SMALLINT NOT NULL,
    compatibility   VARCHAR(255),
    -- pending, running, waiting, completed, failed, cancelled, terminated
    status          VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- activity, timer, signal, child
    wait_reason     VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
    -- completed, failed, cancelled, terminated, timed_out, continued_as_new
    closed_reason   VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
    history_length  BIGINT NOT NULL,
    -- The place of the last message that was sent, and of the last one that was taken.
    inbox_seq       BIGINT NOT NULL DEFAULT 0,
    inbox_drained   BIGINT NOT NULL DEFAULT 0,
    -- The epoch of the last workflow task that went: the next one goes on from it.
    turn_epoch      BIGINT NOT NULL DEFAULT 0,
    parent_run_id   VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
    parent_step_seq BIGINT,
    -- terminate, request_cancel, abandon
    parent_close    VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
    -- The run that goes on where this one ended: a call for the current run follows it.
    continued_to    VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
    started_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    closed_at       BIGINT,
    output_codec    VARCHAR(255),
    output          LONGBLOB,
    -- A JSON object.
    failure         LONGTEXT,
    INDEX workflow_runs_by_age (namespace, started_at, run_id),
    INDEX workflow_runs_by_instance (namespace, workflow_id, run_number),
    INDEX workflow_runs_children (parent_run_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What happened, in order; only ever added to. The value stands beside the details of its kind.
CREATE TABLE IF NOT EXISTS workflow_history (
    run_id          VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    seq             BIGINT NOT NULL,
    `type`          VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    step_seq        BIGINT,
    at              BIGINT NOT NULL,
    -- A JSON object.
    details         LONGTEXT,
    codec           VARCHAR(255),
    payload         LONGBLOB,
    PRIMARY KEY (run_id, seq)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- News for a run that its workflow task has not taken yet, in places that are dense over the life
-- of a run and go on in the run that it continues as.
CREATE TABLE IF NOT EXISTS workflow_inbox (
    run_id          VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    inbox_seq       BIGINT NOT NULL,
    `type`          VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    step_seq        BIGINT,
    at              BIGINT NOT NULL,
    details         LONGTEXT,
    codec           VARCHAR(255),
    payload         LONGBLOB,
    PRIMARY KEY (run_id, inbox_seq)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What is to be claimed. A row lives while its task is open.
CREATE TABLE IF NOT EXISTS workflow_tasks (
    -- run_id:step_seq, step 0 for the workflow task: a run cannot have two.
    task_id         VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,
    -- workflow, activity
    task_type       VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    namespace       VARCHAR(255) NOT NULL,
    queue           VARCHAR(255) NOT NULL,
    priority        SMALLINT NOT NULL,
    -- ready, leased, blocked
    status          VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    available_at    BIGINT NOT NULL,
    workflow_id     VARCHAR(255) NOT NULL,
    run_id          VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    step_seq        BIGINT NOT NULL,
    -- The type of the workflow or of the activity.
    name            VARCHAR(255) NOT NULL,
    compatibility   VARCHAR(255),
    attempt_count   INTEGER NOT NULL DEFAULT 0,
    -- How often it was taken back from an owner that was gone.
    recover_count   INTEGER NOT NULL DEFAULT 0,
    lease_owner     VARCHAR(255),
    lease_epoch     BIGINT NOT NULL DEFAULT 0,
    leased_at       BIGINT,
    lease_expires_at BIGINT,
    -- replay, poison
    blocked_reason  VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
    last_error      LONGTEXT,
    created_at      BIGINT NOT NULL,
    -- Of an activity: the event with its input and policy, and its times. A span or an instant that
    -- is not set is 2^62, so that the earliest of several is the least of them.
    scheduled_seq   BIGINT,
    attempt_id      VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
    started_at      BIGINT,
    heartbeat_at    BIGINT,
    heartbeat_codec VARCHAR(255),
    heartbeat_payload LONGBLOB,
    schedule_to_start_at BIGINT NOT NULL DEFAULT 4611686018427387904,
    schedule_to_close_at BIGINT NOT NULL DEFAULT 4611686018427387904,
    start_to_close_us BIGINT NOT NULL DEFAULT 4611686018427387904,
    heartbeat_us    BIGINT NOT NULL DEFAULT 4611686018427387904,
    -- The earliest of them in its present state.
    deadline_at     BIGINT NOT NULL DEFAULT 4611686018427387904,
    -- One claim probes each priority: `priority = p AND available_at <= now`, in this order.
    INDEX workflow_tasks_claim (status, namespace, queue, task_type, priority, available_at, task_id),
    INDEX workflow_tasks_leased (status, lease_owner, task_id),
    INDEX workflow_tasks_deadline (deadline_at, task_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Attempts that did not succeed.
CREATE TABLE IF NOT EXISTS activity_attempts (
    attempt_id      VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,
    task_id         VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    run_id          VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    attempt         INTEGER NOT NULL,
    lease_owner     VARCHAR(255),
    -- failed, timed_out
    outcome         VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- A JSON object.
    failure         LONGTEXT NOT NULL,
    ended_at        BIGINT NOT NULL,
    INDEX activity_attempts_by_run (run_id, ended_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What makes a caller's command happen once.
CREATE TABLE IF NOT EXISTS workflow_commands (
    namespace       VARCHAR(255) NOT NULL,
    workflow_id     VARCHAR(255) NOT NULL,
    -- signal, cancel, terminate
    kind            VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    request_id      VARBINARY(255) NOT NULL,
    run_id          VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    at              BIGINT NOT NULL,
    PRIMARY KEY (namespace, workflow_id, kind, request_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Incarnations of processes, and what one of them at a time does for all.
CREATE TABLE IF NOT EXISTS engine_instances (
    instance_id     VARCHAR(255) PRIMARY KEY,
    node_name       VARCHAR(255) NOT NULL,
    build_id        VARCHAR(255),
    pid             BIGINT NOT NULL,
    -- live, draining, stopped, dead
    status          VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    started_at      BIGINT NOT NULL,
    heartbeat_at    BIGINT NOT NULL,
    expires_at      BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE IF NOT EXISTS engine_roles (
    -- recovery, scheduler, retention
    `role`          VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,
    holder          VARCHAR(255),
    term            BIGINT NOT NULL,
    acquired_at     BIGINT NOT NULL,
    expires_at      BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
