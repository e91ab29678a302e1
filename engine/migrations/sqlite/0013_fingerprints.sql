-- What the code of a run was when it began: only workers with the same go on with it. NULL for any.
ALTER TABLE workflow_runs ADD COLUMN fingerprint TEXT;
