-- The newest event of a commit says what the row in `meta` would: then `meta` need not be written, which is one page less.
-- It counts if its `seq` is above the one in `meta`: `next` is the fence there, and `at` the time.
ALTER TABLE event ADD COLUMN next INTEGER;
