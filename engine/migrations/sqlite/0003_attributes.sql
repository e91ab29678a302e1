-- By what runs are found. A list of keywords has a row each.
CREATE TABLE workflow_attributes (
    run_id          TEXT NOT NULL,
    name            TEXT NOT NULL,
    place           INTEGER NOT NULL,
    namespace       TEXT NOT NULL,
    -- keyword, keywords, integer, float, bool, time
    kind            TEXT NOT NULL,
    -- A keyword.
    text_value      TEXT,
    -- A whole number; 0 or 1; an instant in microseconds.
    integer_value   INTEGER,
    float_value     REAL,
    PRIMARY KEY (run_id, name, place)
) STRICT;
CREATE INDEX workflow_attributes_by_text ON workflow_attributes (namespace, name, text_value)
    WHERE text_value IS NOT NULL;
CREATE INDEX workflow_attributes_by_integer ON workflow_attributes (namespace, name, integer_value, run_id)
    WHERE integer_value IS NOT NULL;
CREATE INDEX workflow_attributes_by_float ON workflow_attributes (namespace, name, float_value, run_id)
    WHERE float_value IS NOT NULL;

-- What describes runs to people: a JSON object each.
CREATE TABLE workflow_memos (
    run_id          TEXT NOT NULL PRIMARY KEY,
    memo            TEXT NOT NULL
) STRICT;
