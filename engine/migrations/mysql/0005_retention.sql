-- How long closed runs of a tenant are kept, where it is not the default.
CREATE TABLE IF NOT EXISTS workflow_namespaces (
    namespace       VARCHAR(255) PRIMARY KEY,
    retention_us    BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- In the order in which they are removed. MySQL has no CREATE INDEX IF NOT EXISTS.
SET @step = IF(
    EXISTS (SELECT 1 FROM information_schema.statistics WHERE table_schema = DATABASE()
        AND table_name = 'workflow_runs' AND index_name = 'workflow_runs_closed'),
    'DO 0',
    'CREATE INDEX workflow_runs_closed ON workflow_runs (namespace, closed_at, run_id)');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
