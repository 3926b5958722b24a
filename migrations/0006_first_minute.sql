-- First minutes: each names its runs, which are ordinary ones.
CREATE TABLE IF NOT EXISTS first_minutes (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    started_at_ms INTEGER NOT NULL,
    document      TEXT NOT NULL     -- JSON
) STRICT;
