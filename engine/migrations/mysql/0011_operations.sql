-- Runs whose history was handed over and is no longer here. Their rows in workflow_runs stay until
-- their retention ends.
CREATE TABLE IF NOT EXISTS workflow_archives (
    run_id          VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,
    namespace       VARCHAR(255) NOT NULL,
    archived_at     BIGINT NOT NULL,
    -- Where it was put, in the words of whoever keeps it.
    place           TEXT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What the process did in the last minute: a JSON object, NULL before its first heartbeat.
SET @step = IF(
    EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()
        AND table_name = 'engine_instances' AND column_name = 'figures'),
    'DO 0',
    'ALTER TABLE engine_instances ADD COLUMN figures TEXT');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
