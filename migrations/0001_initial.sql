-- The notebook, version 1. Times are milliseconds since 1970 UTC; JSON is text.

-- One row a run: what the history filters and shows. Ids are never used twice.
CREATE TABLE runs (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    kind           TEXT NOT NULL,
    state          TEXT NOT NULL,
    origin         TEXT NOT NULL,
    actor          TEXT NOT NULL,
    node           TEXT NOT NULL,
    from_peer      TEXT,
    experiment     INTEGER,
    repeat         INTEGER,
    target         TEXT NOT NULL,   -- http://127.0.0.1:8000/
    authority      TEXT NOT NULL,   -- 127.0.0.1:8000
    host           TEXT NOT NULL,   -- 127.0.0.1
    created_at_ms  INTEGER NOT NULL,
    started_at_ms  INTEGER,
    finished_at_ms INTEGER,
    baseline       INTEGER NOT NULL DEFAULT 0,
    form_token     TEXT UNIQUE,
    requests       INTEGER,
    errors         INTEGER,
    achieved_per_s REAL,
    latency_p50_ms REAL,
    latency_p99_ms REAL,
    command        TEXT NOT NULL,
    note           TEXT NOT NULL,
    title          TEXT,
    verdict        TEXT,
    error          TEXT
) STRICT;

CREATE INDEX runs_kind ON runs (kind, id);
CREATE INDEX runs_state ON runs (state, id);
CREATE INDEX runs_kind_state ON runs (kind, state, id);
CREATE INDEX runs_target ON runs (target, id);
CREATE INDEX runs_authority ON runs (authority, id);
CREATE INDEX runs_host ON runs (host, id);
-- Walked from its newest end when a time is asked for: ids do not follow times where a clock was set back.
CREATE INDEX runs_walk ON runs (id, created_at_ms, kind, state);
CREATE INDEX runs_experiment ON runs (experiment, id) WHERE experiment IS NOT NULL;
CREATE INDEX runs_baseline ON runs (target, id) WHERE baseline = 1;

-- What only a report needs, apart from the rows that the history walks over.
CREATE TABLE run_documents (
    run         INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    plan        TEXT NOT NULL,
    point       TEXT,
    objective   TEXT NOT NULL,              -- as stated: p99<500ms,errors<0.1%
    environment TEXT NOT NULL DEFAULT '{}',
    checks      TEXT NOT NULL DEFAULT '[]',
    limits      TEXT NOT NULL DEFAULT '[]',
    objectives  TEXT NOT NULL DEFAULT '[]', -- and whether they were met
    summary     TEXT,
    series      BLOB                        -- JSON of what the charts are drawn from
) STRICT;

CREATE TABLE tags (
    tag TEXT NOT NULL,
    run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    PRIMARY KEY (tag, run)
) STRICT, WITHOUT ROWID;

CREATE INDEX tags_run ON tags (run);

-- Commands, notes, titles and tags, searched by any part of three or more characters.
CREATE VIRTUAL TABLE run_text USING fts5 (
    words, content = '', contentless_delete = 1, tokenize = 'trigram'
);

-- One row a second of an HTTP run: intervals.csv.
CREATE TABLE run_seconds (
    run              INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    second           INTEGER NOT NULL,
    start_s          REAL NOT NULL,
    end_s            REAL NOT NULL,
    requests         INTEGER NOT NULL,
    replies          INTEGER NOT NULL,
    errors           INTEGER NOT NULL,
    reply_rate_per_s REAL NOT NULL,
    latency_avg_ms   REAL,
    latency_p50_ms   REAL,
    latency_p99_ms   REAL,
    latency_max_ms   REAL,
    in_flight        INTEGER NOT NULL,
    PRIMARY KEY (run, second)
) STRICT, WITHOUT ROWID;

-- The requests behind each second; a histogram holds all of them, the rows those that are kept.
CREATE TABLE run_samples (
    id         INTEGER PRIMARY KEY,
    run        INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    second     INTEGER NOT NULL,
    rows_count INTEGER NOT NULL,
    histogram  BLOB NOT NULL, -- HdrHistogram V2, deflated, latency in µs
    rows       BLOB NOT NULL,
    UNIQUE (run, second)
) STRICT;

CREATE TABLE peers (
    name          TEXT PRIMARY KEY COLLATE NOCASE,
    record        TEXT NOT NULL, -- JSON as the API shows it
    created_at_ms INTEGER NOT NULL,
    confirmed_by  TEXT           -- who said that a public address may be tested
) STRICT;

CREATE TABLE settings (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
