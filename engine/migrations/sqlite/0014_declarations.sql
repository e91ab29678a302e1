-- The search attributes that a namespace declares, for people and tools: nothing is refused for them.
CREATE TABLE workflow_attribute_declarations (
    namespace       TEXT NOT NULL,
    name            TEXT NOT NULL,
    -- keyword, text, int, double, bool, datetime, keyword_list
    kind            TEXT NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT;
