-- What claims of bounded tasks lock one after the other, and until when the pace of each is used up.
CREATE TABLE engine_quotas (
    namespace       TEXT COLLATE "C" NOT NULL,
    -- Empty for all queues together.
    queue           TEXT COLLATE "C" NOT NULL,
    -- workflow, activity
    task_type       TEXT COLLATE "C" NOT NULL,
    paid_until      BIGINT NOT NULL,
    PRIMARY KEY (namespace, queue, task_type)
);
