-- The search attributes that a namespace declares, for people and tools: nothing is refused for them.
CREATE TABLE workflow_attribute_declarations (
    namespace       TEXT COLLATE "C" NOT NULL,
    name            TEXT COLLATE "C" NOT NULL,
    -- keyword, text, int, double, bool, datetime, keyword_list
    kind            TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace, name)
);
