-- How long closed runs of a tenant are kept, where it is not the default.
CREATE TABLE workflow_namespaces (
    namespace       TEXT COLLATE "C" PRIMARY KEY,
    retention_us    BIGINT NOT NULL
);
