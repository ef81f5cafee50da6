-- What all migrations together lead to, for reading; a test compares. It is never executed by the store.

-- Entries of all records. One row an entry; `body` is the packed entry (stores/codec.py).
-- Records are locked by advisory locks, not by rows: a record that is not there yet must be locked as well.
CREATE TABLE {schema}.entry (
    key text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    due bigint,
    body json NOT NULL,
    PRIMARY KEY (key, id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000);

-- When a sweep should look at an entry.
CREATE INDEX entry_due ON {schema}.entry (due) WHERE due IS NOT NULL;

-- History: only ever appended to and trimmed at its old end. `seq` grows in the order of commits.
CREATE SEQUENCE {schema}.event_seq;
CREATE TABLE {schema}.event (
    seq bigint PRIMARY KEY DEFAULT nextval('{schema}.event_seq'),
    at bigint NOT NULL,
    kind text NOT NULL,
    space text NOT NULL,
    lease text,
    fence bigint NOT NULL,
    holder text NOT NULL,
    session text,
    resources jsonb NOT NULL,
    detail json
);

-- Fences, in blocks: a transaction takes the next block once its records are locked (docs/adr).
CREATE SEQUENCE {schema}.fence AS bigint INCREMENT BY 1024 START WITH 1 MAXVALUE 9007199254740991;

-- The latest time that anybody was told, in microseconds: the clock never goes below it.
CREATE SEQUENCE {schema}.latest AS bigint;

-- One row about the database itself.
CREATE TABLE {schema}.meta (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version integer NOT NULL, -- the last migration
    database text NOT NULL, -- a name of this database's own
    system text NOT NULL, -- the server that it lived on last,
    timeline text NOT NULL, -- and which of its histories
    epoch integer NOT NULL, -- how often that changed
    opens_at bigint NOT NULL, -- nothing new is granted before this time, see docs/postgresql.md
    longest bigint NOT NULL -- the longest TTL that was ever granted, in microseconds
);

-- For people: what is held now.
CREATE VIEW {schema}.leases AS
SELECT
    body ->> 1 AS id,
    body -> 10 ->> 0 AS space,
    body -> 10 -> 1 -> 0 -> 0 AS resources,
    body -> 10 ->> 5 AS holder,
    body -> 10 ->> 6 AS session,
    CASE body -> 10 ->> 2 WHEN 'X' THEN 'exclusive' WHEN 'S' THEN 'shared' ELSE 'slots' END AS mode,
    (body ->> 6)::bigint AS fence,
    to_timestamp((body ->> 7)::bigint / 1e6) AS acquired_at,
    to_timestamp((body ->> 8)::bigint / 1e6) AS expires_at,
    body -> 10 ->> 8 AS name,
    body -> 10 ->> 10 AS reason
FROM {schema}.entry
WHERE
    key >= 'n' AND key < 'o' AND id >= 'l' AND id < 'm'
    AND body ->> 0 = 'h'
    AND json_typeof(body -> 10) = 'array'
    AND body ->> 12 = 'false'
    AND (body ->> 8)::bigint > extract(epoch FROM clock_timestamp()) * 1e6;
