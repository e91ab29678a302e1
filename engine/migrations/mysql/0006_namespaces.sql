-- What is known of a tenant beside its name and its retention. MySQL has no ADD COLUMN IF NOT EXISTS.
-- A column `created_at` is zero when the row was set by a version that did not note it.
SET @step = IF(
    EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()
        AND table_name = 'workflow_namespaces' AND column_name = 'created_at'),
    'DO 0',
    'ALTER TABLE workflow_namespaces ADD COLUMN description TEXT,
        ADD COLUMN created_at BIGINT NOT NULL DEFAULT 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

-- The only namespace that the process looks after; NULL for all.
SET @step = IF(
    EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()
        AND table_name = 'engine_instances' AND column_name = 'namespace'),
    'DO 0',
    'ALTER TABLE engine_instances ADD COLUMN namespace VARCHAR(255)');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;

-- A role of processes that keep to a namespace is named role:namespace.
ALTER TABLE engine_roles MODIFY `role` VARCHAR(288) NOT NULL;
