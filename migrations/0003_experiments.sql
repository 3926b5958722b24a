-- Version 3: experiments. Their runs carry the experiment's number, the point and the repeat since version 1.

CREATE TABLE experiments (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    kind           TEXT NOT NULL,
    state          TEXT NOT NULL,
    actor          TEXT NOT NULL,
    target         TEXT NOT NULL,
    spec           TEXT NOT NULL,              -- JSON as the API takes it
    objective      TEXT NOT NULL,              -- of each run, as stated
    note           TEXT NOT NULL,
    tags           TEXT NOT NULL DEFAULT '[]', -- JSON; its runs have them in the table of tags too
    created_at_ms  INTEGER NOT NULL,
    started_at_ms  INTEGER,
    finished_at_ms INTEGER,
    form_token     TEXT UNIQUE,
    found          TEXT,                       -- JSON of what a search has found
    title          TEXT,
    verdict        TEXT,
    error          TEXT
) STRICT;

CREATE INDEX experiments_state ON experiments (state, id);
CREATE INDEX experiments_kind ON experiments (kind, id);
