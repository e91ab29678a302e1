-- The engine's tables. Times are integers: microseconds since 1970, UTC, of this machine's clock; an
-- instant that does not come is 4611686018427387904 (2^62).

-- What callers named.
CREATE TABLE workflow_instances (
    namespace       TEXT NOT NULL,
    workflow_id     TEXT NOT NULL,
    current_run_id  TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (namespace, workflow_id)
) STRICT, WITHOUT ROWID;

-- Executions.
CREATE TABLE workflow_runs (
    run_id          TEXT NOT NULL PRIMARY KEY,
    namespace       TEXT NOT NULL,
    workflow_id     TEXT NOT NULL,
    run_number      INTEGER NOT NULL,
    workflow_type   TEXT NOT NULL,
    queue           TEXT NOT NULL,
    priority        INTEGER NOT NULL,
    compatibility   TEXT,
    -- pending, running, waiting, completed, failed, cancelled, terminated
    status          TEXT NOT NULL,
    -- activity, timer, signal, child
    wait_reason     TEXT,
    -- completed, failed, cancelled, terminated, timed_out, continued_as_new
    closed_reason   TEXT,
    history_length  INTEGER NOT NULL,
    -- The place of the last message that was sent, and of the last one that was taken.
    inbox_seq       INTEGER NOT NULL DEFAULT 0,
    inbox_drained   INTEGER NOT NULL DEFAULT 0,
    -- The epoch of the last workflow task that went: the next one goes on from it.
    turn_epoch      INTEGER NOT NULL DEFAULT 0,
    parent_run_id   TEXT,
    parent_step_seq INTEGER,
    -- terminate, request_cancel, abandon
    parent_close    TEXT,
    -- The run that goes on where this one ended: a call for the current run follows it.
    continued_to    TEXT,
    started_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    closed_at       INTEGER,
    output_codec    TEXT,
    output          BLOB,
    -- A JSON object.
    failure         TEXT
) STRICT;
CREATE INDEX workflow_runs_by_age ON workflow_runs (namespace, started_at, run_id);
CREATE INDEX workflow_runs_by_instance ON workflow_runs (namespace, workflow_id, run_number);
CREATE INDEX workflow_runs_open ON workflow_runs (namespace, started_at, run_id) WHERE closed_at IS NULL;
CREATE INDEX workflow_runs_children ON workflow_runs (parent_run_id) WHERE parent_run_id IS NOT NULL AND closed_at IS NULL;

-- What happened, in order; only ever added to. The value stands beside the details of its kind.
CREATE TABLE workflow_history (
    run_id          TEXT NOT NULL,
    seq             INTEGER NOT NULL,
    type            TEXT NOT NULL,
    step_seq        INTEGER,
    at              INTEGER NOT NULL,
    -- A JSON object.
    details         TEXT,
    codec           TEXT,
    payload         BLOB,
    PRIMARY KEY (run_id, seq)
) STRICT, WITHOUT ROWID;

-- News for a run that its workflow task has not taken yet, in places that are dense over the life
-- of a run and go on in the run that it continues as.
CREATE TABLE workflow_inbox (
    run_id          TEXT NOT NULL,
    inbox_seq       INTEGER NOT NULL,
    type            TEXT NOT NULL,
    step_seq        INTEGER,
    at              INTEGER NOT NULL,
    details         TEXT,
    codec           TEXT,
    payload         BLOB,
    PRIMARY KEY (run_id, inbox_seq)
) STRICT, WITHOUT ROWID;

-- What is to be claimed. A row lives while its task is open.
CREATE TABLE workflow_tasks (
    -- run_id:step_seq, step 0 for the workflow task: a run cannot have two.
    task_id         TEXT NOT NULL PRIMARY KEY,
    -- workflow, activity
    task_type       TEXT NOT NULL,
    namespace       TEXT NOT NULL,
    queue           TEXT NOT NULL,
    priority        INTEGER NOT NULL,
    -- ready, leased, blocked
    status          TEXT NOT NULL,
    available_at    INTEGER NOT NULL,
    workflow_id     TEXT NOT NULL,
    run_id          TEXT NOT NULL,
    step_seq        INTEGER NOT NULL,
    -- The type of the workflow or of the activity.
    name            TEXT NOT NULL,
    compatibility   TEXT,
    attempt_count   INTEGER NOT NULL DEFAULT 0,
    -- How often it was taken back from an owner that was gone.
    recover_count   INTEGER NOT NULL DEFAULT 0,
    lease_owner     TEXT,
    lease_epoch     INTEGER NOT NULL DEFAULT 0,
    leased_at       INTEGER,
    lease_expires_at INTEGER,
    -- replay, poison
    blocked_reason  TEXT,
    last_error      TEXT,
    created_at      INTEGER NOT NULL,
    -- Of an activity: the event with its input and policy, and its times. A span or an instant that
    -- is not set is 2^62, so that the earliest of several is the least of them.
    scheduled_seq   INTEGER,
    attempt_id      TEXT,
    started_at      INTEGER,
    heartbeat_at    INTEGER,
    heartbeat_codec TEXT,
    heartbeat_payload BLOB,
    schedule_to_start_at INTEGER NOT NULL DEFAULT 4611686018427387904,
    schedule_to_close_at INTEGER NOT NULL DEFAULT 4611686018427387904,
    start_to_close_us INTEGER NOT NULL DEFAULT 4611686018427387904,
    heartbeat_us    INTEGER NOT NULL DEFAULT 4611686018427387904,
    -- The earliest of them in its present state.
    deadline_at     INTEGER NOT NULL DEFAULT 4611686018427387904
) STRICT;
-- One claim probes each priority: `priority = p AND available_at <= now`, in this order.
CREATE INDEX workflow_tasks_claim ON workflow_tasks (namespace, queue, task_type, priority, available_at, task_id)
    WHERE status = 'ready';
CREATE INDEX workflow_tasks_leased ON workflow_tasks (lease_owner, task_id) WHERE status = 'leased';
CREATE INDEX workflow_tasks_deadline ON workflow_tasks (deadline_at, task_id)
    WHERE deadline_at < 4611686018427387904;

-- Attempts that did not succeed.
CREATE TABLE activity_attempts (
    attempt_id      TEXT NOT NULL PRIMARY KEY,
    task_id         TEXT NOT NULL,
    run_id          TEXT NOT NULL,
    attempt         INTEGER NOT NULL,
    lease_owner     TEXT,
    -- failed, timed_out
    outcome         TEXT NOT NULL,
    -- A JSON object.
    failure         TEXT NOT NULL,
    ended_at        INTEGER NOT NULL
) STRICT;
CREATE INDEX activity_attempts_by_run ON activity_attempts (run_id, ended_at);

-- What makes a caller's command happen once.
CREATE TABLE workflow_commands (
    namespace       TEXT NOT NULL,
    workflow_id     TEXT NOT NULL,
    -- signal, cancel, terminate
    kind            TEXT NOT NULL,
    request_id      TEXT NOT NULL,
    run_id          TEXT NOT NULL,
    at              INTEGER NOT NULL,
    PRIMARY KEY (namespace, workflow_id, kind, request_id)
) STRICT, WITHOUT ROWID;

-- Incarnations of processes, and what one of them at a time does for all.
CREATE TABLE engine_instances (
    instance_id     TEXT NOT NULL PRIMARY KEY,
    node_name       TEXT NOT NULL,
    build_id        TEXT,
    pid             INTEGER NOT NULL,
    -- live, draining, stopped, dead
    status          TEXT NOT NULL,
    started_at      INTEGER NOT NULL,
    heartbeat_at    INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE engine_roles (
    -- recovery, scheduler, retention
    role            TEXT NOT NULL PRIMARY KEY,
    holder          TEXT,
    term            INTEGER NOT NULL,
    acquired_at     INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
