-- Whose share of a queue tasks count against; an empty key is that of those who have none. MySQL
-- has no ADD COLUMN IF NOT EXISTS.
SET @step = IF(
    EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()
        AND table_name = 'workflow_runs' AND column_name = 'fairness_key'),
    'DO 0',
    'ALTER TABLE workflow_runs ADD COLUMN fairness_key VARCHAR(64) NOT NULL DEFAULT '''',
        ADD COLUMN fairness_weight SMALLINT NOT NULL DEFAULT 1');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

-- Tasks without a key are found by the index that was there, and each share by one of its own.
SET @step = IF(
    EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()
        AND table_name = 'workflow_tasks' AND column_name = 'fairness_key'),
    'DO 0',
    'ALTER TABLE workflow_tasks ADD COLUMN fairness_key VARCHAR(64) NOT NULL DEFAULT '''',
        ADD COLUMN fairness_weight SMALLINT NOT NULL DEFAULT 1,
        ADD INDEX workflow_tasks_shared (status, namespace, queue, task_type, fairness_key,
            priority, available_at, task_id)');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

-- What each share was served, in millionths of a task of weight 1. A row that is not there is that
-- of a share which was not served for long.
CREATE TABLE IF NOT EXISTS engine_shares (
    namespace       VARCHAR(255) NOT NULL,
    queue           VARCHAR(255) NOT NULL,
    -- workflow, activity
    task_type       VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    fairness_key    VARCHAR(64) NOT NULL,
    priority        SMALLINT NOT NULL,
    -- As of the task that was claimed last.
    fairness_weight SMALLINT NOT NULL,
    served          BIGINT NOT NULL,
    served_at       BIGINT NOT NULL,
    PRIMARY KEY (namespace, queue, task_type, fairness_key, priority)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
