-- How many of the signals in its history a run has not received: with those in its inbox, they are
-- what bounds its senders. MySQL has no ADD COLUMN IF NOT EXISTS.
SET @step = IF(
    EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()
        AND table_name = 'workflow_runs' AND column_name = 'buffered_signals'),
    'DO 0',
    'ALTER TABLE workflow_runs ADD COLUMN buffered_signals BIGINT NOT NULL DEFAULT 0');
PREPARE step FROM @step;
EXECUTE step;
DEALLOCATE PREPARE step;
