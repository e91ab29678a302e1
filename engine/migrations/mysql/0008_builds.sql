-- The build with which new runs of a tenant are marked, and the one before it. MySQL has no
-- ADD COLUMN IF NOT EXISTS.
SET @step = IF(
    EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()
        AND table_name = 'workflow_namespaces' AND column_name = 'promoted_build'),
    'DO 0',
    'ALTER TABLE workflow_namespaces ADD COLUMN promoted_build VARCHAR(255),
        ADD COLUMN replaced_build VARCHAR(255)');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

-- Builds that are to end.
CREATE TABLE IF NOT EXISTS workflow_builds (
    namespace       VARCHAR(255) NOT NULL,
    build_id        VARCHAR(255) NOT NULL,
    -- draining, rolled_back
    status          VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    changed_at      BIGINT NOT NULL,
    PRIMARY KEY (namespace, build_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Workers, each with a row for every build that it can go on with. They live with their process.
CREATE TABLE IF NOT EXISTS engine_workers (
    worker_id       VARCHAR(255) NOT NULL,
    -- A build; empty for runs without one alone, * for all.
    build_id        VARCHAR(255) NOT NULL,
    instance_id     VARCHAR(255) NOT NULL,
    namespace       VARCHAR(255) NOT NULL,
    queue           VARCHAR(255) NOT NULL,
    -- What it marks new runs with.
    current_build   VARCHAR(255),
    host            TEXT,
    started_at      BIGINT NOT NULL,
    PRIMARY KEY (worker_id, build_id),
    INDEX engine_workers_by_queue (namespace, queue, worker_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
