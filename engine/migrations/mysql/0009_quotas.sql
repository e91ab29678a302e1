-- What claims of bounded tasks lock one after the other, and until when the pace of each is used up.
CREATE TABLE IF NOT EXISTS engine_quotas (
    namespace       VARCHAR(255) NOT NULL,
    -- Empty for all queues together.
    queue           VARCHAR(255) NOT NULL,
    -- workflow, activity
    task_type       VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    paid_until      BIGINT NOT NULL,
    PRIMARY KEY (namespace, queue, task_type)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
