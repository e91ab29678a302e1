-- The engine's tables. Times are integers: microseconds since 1970, UTC, of this server's clock; an
-- instant that does not come is 4611686018427387904 (2^62). Ids compare byte by byte.

-- What callers named.
CREATE TABLE workflow_instances (
    namespace       TEXT COLLATE "C" NOT NULL,
    workflow_id     TEXT COLLATE "C" NOT NULL,
    current_run_id  TEXT COLLATE "C" NOT NULL,
    created_at      BIGINT NOT NULL,
    PRIMARY KEY (namespace, workflow_id)
);

-- Executions. Rows are updated once a turn, in columns that no index covers: the free space lets
-- these updates stay on their page.
CREATE TABLE workflow_runs (
    run_id          TEXT COLLATE "C" PRIMARY KEY,
    namespace       TEXT COLLATE "C" NOT NULL,
    workflow_id     TEXT COLLATE "C" NOT NULL,
    run_number      INTEGER NOT NULL,
    workflow_type   TEXT COLLATE "C" NOT NULL,
    queue           TEXT COLLATE "C" NOT NULL,
    priority        SMALLINT NOT NULL,
    compatibility   TEXT COLLATE "C",
    -- pending, running, waiting, completed, failed, cancelled, terminated
    status          TEXT COLLATE "C" NOT NULL,
    -- activity, timer, signal, child
    wait_reason     TEXT COLLATE "C",
    -- completed, failed, cancelled, terminated, timed_out, continued_as_new
    closed_reason   TEXT COLLATE "C",
    history_length  BIGINT NOT NULL,
    -- The place of the last message that was sent, and of the last one that was taken.
    inbox_seq       BIGINT NOT NULL DEFAULT 0,
    inbox_drained   BIGINT NOT NULL DEFAULT 0,
    -- The epoch of the last workflow task that went: the next one goes on from it.
    turn_epoch      BIGINT NOT NULL DEFAULT 0,
    parent_run_id   TEXT COLLATE "C",
    parent_step_seq BIGINT,
    -- terminate, request_cancel, abandon
    parent_close    TEXT COLLATE "C",
    -- The run that goes on where this one ended: a call for the current run follows it.
    continued_to    TEXT COLLATE "C",
    started_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    closed_at       BIGINT,
    output_codec    TEXT,
    output          BYTEA,
    -- A JSON object.
    failure         TEXT
) WITH (fillfactor = 70);
CREATE INDEX workflow_runs_by_age ON workflow_runs (namespace, started_at, run_id);
CREATE INDEX workflow_runs_by_instance ON workflow_runs (namespace, workflow_id, run_number);
CREATE INDEX workflow_runs_open ON workflow_runs (namespace, started_at, run_id) WHERE closed_at IS NULL;
CREATE INDEX workflow_runs_children ON workflow_runs (parent_run_id) WHERE parent_run_id IS NOT NULL AND closed_at IS NULL;

-- What happened, in order; only ever added to. The value stands beside the details of its kind.
CREATE TABLE workflow_history (
    run_id          TEXT COLLATE "C" NOT NULL,
    seq             BIGINT NOT NULL,
    type            TEXT COLLATE "C" NOT NULL,
    step_seq        BIGINT,
    at              BIGINT NOT NULL,
    -- A JSON object.
    details         TEXT,
    codec           TEXT,
    payload         BYTEA,
    PRIMARY KEY (run_id, seq)
);

-- News for a run that its workflow task has not taken yet, in places that are dense over the life
-- of a run and go on in the run that it continues as.
CREATE TABLE workflow_inbox (
    run_id          TEXT COLLATE "C" NOT NULL,
    inbox_seq       BIGINT NOT NULL,
    type            TEXT COLLATE "C" NOT NULL,
    step_seq        BIGINT,
    at              BIGINT NOT NULL,
    details         TEXT,
    codec           TEXT,
    payload         BYTEA,
    PRIMARY KEY (run_id, inbox_seq)
);

-- What is to be claimed. A row lives while its task is open.
CREATE TABLE workflow_tasks (
    -- run_id:step_seq, step 0 for the workflow task: a run cannot have two.
    task_id         TEXT COLLATE "C" PRIMARY KEY,
    -- workflow, activity
    task_type       TEXT COLLATE "C" NOT NULL,
    namespace       TEXT COLLATE "C" NOT NULL,
    queue           TEXT COLLATE "C" NOT NULL,
    priority        SMALLINT NOT NULL,
    -- ready, leased, blocked
    status          TEXT COLLATE "C" NOT NULL,
    available_at    BIGINT NOT NULL,
    workflow_id     TEXT COLLATE "C" NOT NULL,
    run_id          TEXT COLLATE "C" NOT NULL,
    step_seq        BIGINT NOT NULL,
    -- The type of the workflow or of the activity.
    name            TEXT COLLATE "C" NOT NULL,
    compatibility   TEXT COLLATE "C",
    attempt_count   INTEGER NOT NULL DEFAULT 0,
    -- How often it was taken back from an owner that was gone.
    recover_count   INTEGER NOT NULL DEFAULT 0,
    lease_owner     TEXT COLLATE "C",
    lease_epoch     BIGINT NOT NULL DEFAULT 0,
    leased_at       BIGINT,
    lease_expires_at BIGINT,
    -- replay, poison
    blocked_reason  TEXT COLLATE "C",
    last_error      TEXT,
    created_at      BIGINT NOT NULL,
    -- Of an activity: the event with its input and policy, and its times. A span or an instant that
    -- is not set is 2^62, so that the earliest of several is the least of them.
    scheduled_seq   BIGINT,
    attempt_id      TEXT COLLATE "C",
    started_at      BIGINT,
    heartbeat_at    BIGINT,
    heartbeat_codec TEXT,
    heartbeat_payload BYTEA,
    schedule_to_start_at BIGINT NOT NULL DEFAULT 4611686018427387904,
    schedule_to_close_at BIGINT NOT NULL DEFAULT 4611686018427387904,
    start_to_close_us BIGINT NOT NULL DEFAULT 4611686018427387904,
    heartbeat_us    BIGINT NOT NULL DEFAULT 4611686018427387904,
    -- The earliest of them in its present state.
    deadline_at     BIGINT NOT NULL DEFAULT 4611686018427387904
) WITH (fillfactor = 70);
-- One claim probes each priority: `priority = p AND available_at <= now`, in this order.
CREATE INDEX workflow_tasks_claim ON workflow_tasks (namespace, queue, task_type, priority, available_at, task_id)
    WHERE status = 'ready';
CREATE INDEX workflow_tasks_leased ON workflow_tasks (lease_owner, task_id) WHERE status = 'leased';
CREATE INDEX workflow_tasks_deadline ON workflow_tasks (deadline_at, task_id)
    WHERE deadline_at < 4611686018427387904;

-- Attempts that did not succeed.
CREATE TABLE activity_attempts (
    attempt_id      TEXT COLLATE "C" PRIMARY KEY,
    task_id         TEXT COLLATE "C" NOT NULL,
    run_id          TEXT COLLATE "C" NOT NULL,
    attempt         INTEGER NOT NULL,
    lease_owner     TEXT COLLATE "C",
    -- failed, timed_out
    outcome         TEXT COLLATE "C" NOT NULL,
    -- A JSON object.
    failure         TEXT NOT NULL,
    ended_at        BIGINT NOT NULL
);
CREATE INDEX activity_attempts_by_run ON activity_attempts (run_id, ended_at);

-- What makes a caller's command happen once.
CREATE TABLE workflow_commands (
    namespace       TEXT COLLATE "C" NOT NULL,
    workflow_id     TEXT COLLATE "C" NOT NULL,
    -- signal, cancel, terminate
    kind            TEXT COLLATE "C" NOT NULL,
    request_id      TEXT COLLATE "C" NOT NULL,
    run_id          TEXT COLLATE "C" NOT NULL,
    at              BIGINT NOT NULL,
    PRIMARY KEY (namespace, workflow_id, kind, request_id)
);

-- Incarnations of processes, and what one of them at a time does for all.
CREATE TABLE engine_instances (
    instance_id     TEXT COLLATE "C" PRIMARY KEY,
    node_name       TEXT NOT NULL,
    build_id        TEXT COLLATE "C",
    pid             BIGINT NOT NULL,
    -- live, draining, stopped, dead
    status          TEXT COLLATE "C" NOT NULL,
    started_at      BIGINT NOT NULL,
    heartbeat_at    BIGINT NOT NULL,
    expires_at      BIGINT NOT NULL
);
CREATE TABLE engine_roles (
    -- recovery, scheduler, retention
    role            TEXT COLLATE "C" PRIMARY KEY,
    holder          TEXT COLLATE "C",
    term            BIGINT NOT NULL,
    acquired_at     BIGINT NOT NULL,
    expires_at      BIGINT NOT NULL
);
