-- The schema of the SQLite store. Any change of it raises SCHEMA_VERSION.

-- Entries of all records, one row for each; `body` is the packed entry (stores/codec.py) as JSONB.
-- A table with a rowid: new rows are appended, and only the index is written at random places.
-- (WITHOUT ROWID was measured at half the speed: its inner pages hold whole rows.)
CREATE TABLE entry (
    key TEXT NOT NULL,
    id TEXT NOT NULL,
    due INTEGER,
    body BLOB NOT NULL,
    UNIQUE (key, id)
);

-- When an entry is due to be swept.
CREATE INDEX entry_due ON entry (due) WHERE due IS NOT NULL;

-- History: rows are only appended, and deleted at the old end.
CREATE TABLE event (
    seq INTEGER PRIMARY KEY, -- of the newest event in the row; from `meta`, so it is never used twice
    first INTEGER NOT NULL, -- of the oldest; events in `body` before it are deleted
    at INTEGER NOT NULL, -- the time of the newest
    body TEXT NOT NULL -- up to 128 events as a JSON array, the newest last
);

-- One row, written by every commit that does not write a row of `journal`.
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    fence INTEGER NOT NULL, -- the next unused fence
    seq INTEGER NOT NULL, -- of the newest event
    now INTEGER NOT NULL, -- the highest time ever committed: the clock never goes below it
    boot TEXT NOT NULL, -- the boot of the machine for which `offset` is right
    offset INTEGER NOT NULL, -- from the time since boot to the store's time
    database TEXT NOT NULL, -- a random name of this database
    folded INTEGER NOT NULL -- the newest row of the journal that was folded into the tables
);

-- Commits of long-running processes that are not folded into the tables yet: one row for each, so that a commit writes
-- few pages. The newest row replaces the row in `meta`. A process folds all rows before it changes the tables.
CREATE TABLE journal (
    number INTEGER PRIMARY KEY, -- continues from `meta.folded`, so it is never used twice
    fence INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    now INTEGER NOT NULL,
    body TEXT NOT NULL -- changes and events as JSON (stores/sqlite/journal.py)
);
