-- The build with which new runs of a tenant are marked, and the one before it.
ALTER TABLE workflow_namespaces ADD COLUMN promoted_build TEXT;
ALTER TABLE workflow_namespaces ADD COLUMN replaced_build TEXT;

-- Builds that are to end.
CREATE TABLE workflow_builds (
    namespace       TEXT NOT NULL,
    build_id        TEXT NOT NULL,
    -- draining, rolled_back
    status          TEXT NOT NULL,
    changed_at      INTEGER NOT NULL,
    PRIMARY KEY (namespace, build_id)
) STRICT, WITHOUT ROWID;

-- Workers, each with a row for every build that it can go on with. They live with their process.
CREATE TABLE engine_workers (
    worker_id       TEXT NOT NULL,
    -- A build; empty for runs without one alone, * for all.
    build_id        TEXT NOT NULL,
    instance_id     TEXT NOT NULL,
    namespace       TEXT NOT NULL,
    queue           TEXT NOT NULL,
    -- What it marks new runs with.
    current_build   TEXT,
    host            TEXT,
    started_at      INTEGER NOT NULL,
    PRIMARY KEY (worker_id, build_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX engine_workers_by_queue ON engine_workers (namespace, queue, worker_id);
