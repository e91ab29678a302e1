-- How long closed runs of a tenant are kept, where it is not the default.
CREATE TABLE IF NOT EXISTS workflow_namespaces (
    namespace       VARCHAR(255) PRIMARY KEY,
    retention_us    BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
