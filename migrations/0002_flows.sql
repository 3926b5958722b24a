-- Version 2: throughput, ping and path runs.

-- One row an interval and stream of a throughput run, and one for the sum of a direction: intervals.csv.
CREATE TABLE run_flows (
    run             INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq             INTEGER NOT NULL,
    stream          TEXT NOT NULL,   -- 1, 2, … or SUM
    direction       TEXT NOT NULL,
    start_s         REAL NOT NULL,
    end_s           REAL NOT NULL,
    bytes           INTEGER NOT NULL,
    bits_per_second REAL,
    retransmits     INTEGER,
    rtt_ms          REAL,
    cwnd_bytes      INTEGER,
    lost            INTEGER,
    datagrams       INTEGER,
    jitter_ms       REAL,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

-- One row a round trip: of a ping, or of the probe beside a throughput run.
CREATE TABLE run_echoes (
    run        INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq        INTEGER NOT NULL,
    sent_s     REAL NOT NULL,
    rtt_ms     REAL,
    ttl        INTEGER,
    duplicates INTEGER NOT NULL,
    loaded     INTEGER NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

-- The headline of a throughput run, for the history.
ALTER TABLE runs ADD COLUMN bits_per_second REAL;
