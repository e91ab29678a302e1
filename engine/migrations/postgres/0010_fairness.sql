-- Whose share of a queue tasks count against; an empty key is that of those who have none.
ALTER TABLE workflow_runs ADD COLUMN fairness_key TEXT COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN fairness_weight SMALLINT NOT NULL DEFAULT 1;
ALTER TABLE workflow_tasks ADD COLUMN fairness_key TEXT COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN fairness_weight SMALLINT NOT NULL DEFAULT 1;

-- One claim probes each priority of a share: `fairness_key = k AND priority = p AND available_at <=
-- now`, in this order.
DROP INDEX workflow_tasks_claim;
CREATE INDEX workflow_tasks_claim
    ON workflow_tasks (namespace, queue, task_type, fairness_key, priority, available_at, task_id)
    WHERE status = 'ready';
-- Whether anything with a key is due.
CREATE INDEX workflow_tasks_shared ON workflow_tasks (namespace, queue, task_type, available_at)
    WHERE status = 'ready' AND fairness_key > '';

-- What each share was served, in millionths of a task of weight 1. A row that is not there is that
-- of a share which was not served for long.
CREATE TABLE engine_shares (
    namespace       TEXT COLLATE "C" NOT NULL,
    queue           TEXT COLLATE "C" NOT NULL,
    -- workflow, activity
    task_type       TEXT COLLATE "C" NOT NULL,
    fairness_key    TEXT COLLATE "C" NOT NULL,
    priority        SMALLINT NOT NULL,
    -- As of the task that was claimed last.
    fairness_weight SMALLINT NOT NULL,
    served          BIGINT NOT NULL,
    served_at       BIGINT NOT NULL,
    PRIMARY KEY (namespace, queue, task_type, fairness_key, priority)
) WITH (fillfactor = 70);
