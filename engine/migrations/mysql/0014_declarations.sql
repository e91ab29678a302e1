-- The search attributes that a namespace declares, for people and tools: nothing is refused for them.
CREATE TABLE IF NOT EXISTS workflow_attribute_declarations (
    namespace       VARCHAR(255) NOT NULL,
    name            VARCHAR(128) NOT NULL,
    -- keyword, text, int, double, bool, datetime, keyword_list
    kind            VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (namespace, name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
