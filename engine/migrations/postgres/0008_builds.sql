-- The build with which new runs of a tenant are marked, and the one before it.
ALTER TABLE workflow_namespaces ADD COLUMN promoted_build TEXT COLLATE "C";
ALTER TABLE workflow_namespaces ADD COLUMN replaced_build TEXT COLLATE "C";

-- Builds that are to end.
CREATE TABLE workflow_builds (
    namespace       TEXT COLLATE "C" NOT NULL,
    build_id        TEXT COLLATE "C" NOT NULL,
    -- draining, rolled_back
    status          TEXT COLLATE "C" NOT NULL,
    changed_at      BIGINT NOT NULL,
    PRIMARY KEY (namespace, build_id)
);

-- Workers, each with a row for every build that it can go on with. They live with their process.
CREATE TABLE engine_workers (
    worker_id       TEXT COLLATE "C" NOT NULL,
    -- A build; empty for runs without one alone, * for all.
    build_id        TEXT COLLATE "C" NOT NULL,
    instance_id     TEXT COLLATE "C" NOT NULL,
    namespace       TEXT COLLATE "C" NOT NULL,
    queue           TEXT COLLATE "C" NOT NULL,
    -- What it marks new runs with.
    current_build   TEXT COLLATE "C",
    host            TEXT,
    started_at      BIGINT NOT NULL,
    PRIMARY KEY (worker_id, build_id)
);
CREATE INDEX engine_workers_by_queue ON engine_workers (namespace, queue, worker_id);
