-- How long closed runs of a tenant are kept, where it is not the default.
CREATE TABLE workflow_namespaces (
    namespace       TEXT NOT NULL PRIMARY KEY,
    retention_us    INTEGER NOT NULL
) STRICT;

-- In the order in which they are removed.
CREATE INDEX workflow_runs_closed ON workflow_runs (namespace, closed_at, run_id) WHERE closed_at IS NOT NULL;
