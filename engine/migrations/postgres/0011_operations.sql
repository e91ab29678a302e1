-- Runs whose history was handed over and is no longer here. Their rows in workflow_runs stay until
-- their retention ends.
CREATE TABLE workflow_archives (
    run_id          TEXT COLLATE "C" PRIMARY KEY,
    namespace       TEXT COLLATE "C" NOT NULL,
    archived_at     BIGINT NOT NULL,
    -- Where it was put, in the words of whoever keeps it.
    place           TEXT NOT NULL
);

-- What the process did in the last minute: a JSON object, NULL before its first heartbeat.
ALTER TABLE engine_instances ADD COLUMN figures TEXT;
