-- The schema of the SQLite store. Any change of it raises SCHEMA_VERSION.

-- Entries of all records. One row an entry; `body` is the packed entry (stores/codec.py) as JSONB.
-- A table with a rowid of its own: new rows go to its end, only the index is written at random places.
-- (WITHOUT ROWID was measured at half the speed: its inner pages hold whole rows.)
CREATE TABLE entry (
    key TEXT NOT NULL,
    id TEXT NOT NULL,
    due INTEGER,
    body BLOB NOT NULL,
    UNIQUE (key, id)
);

-- When a sweep should look at an entry.
CREATE INDEX entry_due ON entry (due) WHERE due IS NOT NULL;

-- History: only ever appended to and trimmed at its old end.
-- The newest event of a commit carries the next fence, and with its `seq` and `at` replaces the row in `meta`, if its `seq`
-- is above the one there. The commit then writes one page less.
-- A chapter is a row with `first`: it holds all events from `first` to its `seq`, as JSON in `resources`, the newest last,
-- and `at` is the time of the newest. Older events in it count as forgotten.
CREATE TABLE event (
    seq INTEGER PRIMARY KEY, -- from `meta`, so it is never used twice
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    space TEXT NOT NULL,
    lease TEXT,
    fence INTEGER NOT NULL,
    holder TEXT NOT NULL,
    session TEXT,
    resources BLOB NOT NULL,
    detail BLOB,
    next INTEGER,
    first INTEGER
);

-- One row, written by every commit whose newest event or row in `journal` does not carry the same.
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    fence INTEGER NOT NULL, -- the first number that was not given out
    seq INTEGER NOT NULL, -- of the newest event
    now INTEGER NOT NULL, -- the highest time ever committed: the clock never goes below it
    boot TEXT NOT NULL, -- the boot of the machine for which `offset` is right
    offset INTEGER NOT NULL, -- from the time since boot to the store's time
    database TEXT NOT NULL, -- a random name of this database
    folded INTEGER NOT NULL -- the newest row of the journal that was folded into the tables
);

-- Commits of long-running processes that were not folded into the tables yet: one row a commit, so that a commit writes
-- few pages. The newest row replaces the row in `meta`. A process folds all rows before it changes the tables.
CREATE TABLE journal (
    number INTEGER PRIMARY KEY, -- goes on from `meta.folded`, so it is never used twice
    fence INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    now INTEGER NOT NULL,
    body BLOB NOT NULL -- changes and events as JSONB (stores/sqlite/journal.py)
);
