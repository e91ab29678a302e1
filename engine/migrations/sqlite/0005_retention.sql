-- How long closed runs of a tenant are kept, where it is not the default.
CREATE TABLE workflow_namespaces (
    namespace       TEXT NOT NULL PRIMARY KEY,
    retention_us    INTEGER NOT NULL
) STRICT;
