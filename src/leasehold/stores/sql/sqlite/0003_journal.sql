-- What processes that stay have committed and not yet brought into the tables: one row a commit, so that a commit writes
-- few pages. Its newest row says what the row in `meta` would. Whoever changes the tables brings all of it there first.
CREATE TABLE journal (
    number INTEGER PRIMARY KEY, -- never used twice: they go on from `meta.folded`
    fence INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    now INTEGER NOT NULL,
    body BLOB NOT NULL -- changes and events as JSONB (stores/sqlite/journal.py)
);

-- The newest row of the journal that was brought into the tables.
ALTER TABLE meta ADD COLUMN folded INTEGER NOT NULL DEFAULT 0;

-- A chapter: a row with `first` stands for all events from there to its `seq`. They are in `resources` as JSON, the newest
-- last, and `at` is the time of the newest. There may be others before `first`, which count as forgotten.
ALTER TABLE event ADD COLUMN first INTEGER;
