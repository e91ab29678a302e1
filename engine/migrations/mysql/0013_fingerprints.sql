-- What the code of a run was when it began: only workers with the same go on with it. NULL for any.
-- MySQL has no ADD COLUMN IF NOT EXISTS.
SET @step = IF(
    EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()
        AND table_name = 'workflow_runs' AND column_name = 'fingerprint'),
    'DO 0',
    'ALTER TABLE workflow_runs ADD COLUMN fingerprint VARCHAR(255)');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
