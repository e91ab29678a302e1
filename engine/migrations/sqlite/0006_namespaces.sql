-- What is known of a tenant beside its name and its retention.
ALTER TABLE workflow_namespaces ADD COLUMN description TEXT;
-- Zero when it was set by a version that did not note it.
ALTER TABLE workflow_namespaces ADD COLUMN created_at INTEGER NOT NULL DEFAULT 0;

-- The only namespace that the process looks after; NULL for all.
ALTER TABLE engine_instances ADD COLUMN namespace TEXT;
