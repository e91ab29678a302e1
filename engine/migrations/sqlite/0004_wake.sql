-- Hints that processes leave for each other, the last few thousand. Losing them costs time alone.
CREATE TABLE workflow_wakes (
    hint_id     INTEGER PRIMARY KEY AUTOINCREMENT,
    message     TEXT NOT NULL
) STRICT;
