-- Version 7: who changed or tried to change what, one row a request.
CREATE TABLE audit (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms   INTEGER NOT NULL,
    who     TEXT NOT NULL,     -- local, or the login's right
    address TEXT NOT NULL,     -- where the request came from
    action  TEXT NOT NULL,     -- in words
    target  TEXT NOT NULL,     -- what it was done to; empty where nothing is
    status  INTEGER NOT NULL   -- of the answer: 2xx and 303 done, 4xx refused
) STRICT;
