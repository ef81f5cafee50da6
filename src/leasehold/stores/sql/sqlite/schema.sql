-- The tables of a new store.

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

-- History: only ever appended to and trimmed at its old end. `seq` comes from `meta`, so it is never used twice.
-- The newest event of a commit says what the row in `meta` would: then `meta` need not be written, which is one page less.
-- It counts if its `seq` is above the one in `meta`: `next` is the fence there, and `at` the time.
-- A chapter: a row with `first` stands for all events from there to its `seq`. They are in `resources` as JSON, the newest
-- last, and `at` is the time of the newest. There may be others before `first`, which count as forgotten.
CREATE TABLE event (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    space TEXT NOT NULL,
    lease TEXT,
    fence INTEGER NOT NULL,
    holder TEXT NOT NULL,
    session TEXT,
    resources BLOB NOT NULL,
    detail BLOB
, next INTEGER, first INTEGER);

-- One row, written by every commit whose newest event or row in `journal` does not say the same. `folded` is the newest
-- row of the journal that was brought into the tables.
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    fence INTEGER NOT NULL, -- the first number that was not given out
    seq INTEGER NOT NULL, -- of the newest event
    now INTEGER NOT NULL, -- the highest time ever committed: the clock never goes below it
    boot TEXT NOT NULL, -- the boot of the machine for which `offset` is right
    offset INTEGER NOT NULL, -- from the time since boot to the store's time
    database TEXT NOT NULL -- a name of this database's own
, folded INTEGER NOT NULL DEFAULT 0);

-- What processes that stay have committed and not yet brought into the tables: one row a commit, so that a commit writes
-- few pages. Its newest row says what the row in `meta` would. Whoever changes the tables brings all of it there first.
CREATE TABLE journal (
    number INTEGER PRIMARY KEY, -- never used twice: they go on from `meta.folded`
    fence INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    now INTEGER NOT NULL,
    body BLOB NOT NULL -- changes and events as JSONB (stores/sqlite/journal.py)
);
