-- Hints that processes leave for each other, the last few thousand. Losing them costs time alone.
CREATE TABLE workflow_wakes (
    hint_id     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message     TEXT NOT NULL
);
