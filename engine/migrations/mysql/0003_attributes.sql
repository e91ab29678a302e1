-- By what runs are found. A list of keywords has a row each.
CREATE TABLE IF NOT EXISTS workflow_attributes (
    run_id          VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    name            VARCHAR(128) NOT NULL,
    place           INTEGER NOT NULL,
    namespace       VARCHAR(255) NOT NULL,
    -- keyword, keywords, integer, float, bool, time
    kind            VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    -- A keyword: as bytes, so that spaces at its end count.
    text_value      VARBINARY(2048),
    -- A whole number; 0 or 1; an instant in microseconds.
    integer_value   BIGINT,
    float_value     DOUBLE,
    PRIMARY KEY (run_id, name, place),
    INDEX workflow_attributes_by_text (namespace, name, text_value(1024)),
    INDEX workflow_attributes_by_integer (namespace, name, integer_value, run_id),
    INDEX workflow_attributes_by_float (namespace, name, float_value, run_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What describes runs to people: a JSON object each.
CREATE TABLE IF NOT EXISTS workflow_memos (
    run_id          VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,
    memo            LONGTEXT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
