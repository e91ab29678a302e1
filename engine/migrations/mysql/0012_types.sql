-- The types that a worker knows: a JSON object, NULL when it does not say. MySQL has no
-- ADD COLUMN IF NOT EXISTS.
SET @step = IF(
    EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()
        AND table_name = 'engine_workers' AND column_name = 'types'),
    'DO 0',
    'ALTER TABLE engine_workers ADD COLUMN types MEDIUMTEXT');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
