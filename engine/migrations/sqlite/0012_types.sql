-- The types that a worker knows: a JSON object, NULL when it does not say.
ALTER TABLE engine_workers ADD COLUMN types TEXT;
