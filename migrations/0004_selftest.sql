-- Self-tests: how exact and how strong this node's generator was found to be. The last one stands beside every report.
CREATE TABLE IF NOT EXISTS selftests (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    node           TEXT NOT NULL,
    started_at_ms  INTEGER NOT NULL,
    finished_at_ms INTEGER NOT NULL,
    figures        TEXT NOT NULL    -- JSON
) STRICT;
