-- How many of the signals in its history a run has not received: with those in its inbox, they are
-- what bounds its senders.
ALTER TABLE workflow_runs ADD COLUMN buffered_signals BIGINT NOT NULL DEFAULT 0;
