-- What claims of bounded tasks lock one after the other, and until when the pace of each is used up.
CREATE TABLE engine_quotas (
    namespace       TEXT NOT NULL,
    -- Empty for all queues together.
    queue           TEXT NOT NULL,
    -- workflow, activity
    task_type       TEXT NOT NULL,
    paid_until      INTEGER NOT NULL,
    PRIMARY KEY (namespace, queue, task_type)
) STRICT, WITHOUT ROWID;
