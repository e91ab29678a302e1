-- Hints that processes leave for each other, the last few thousand. Losing them costs time alone.
CREATE TABLE IF NOT EXISTS workflow_wakes (
    hint_id     BIGINT AUTO_INCREMENT PRIMARY KEY,
    message     TEXT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
