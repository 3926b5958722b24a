-- The notebook, version 5: the texts that imported runs were read from.

CREATE TABLE run_imports (
    run  INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    text BLOB NOT NULL          -- UTF-8, as it was given
) STRICT;
