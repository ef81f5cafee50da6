-- The schema of the PostgreSQL store. Any change of it raises SCHEMA_VERSION.

-- Entries of all records without the journal's changes: read the view `entry` instead. One row for each; `body` is the
-- packed entry (stores/codec.py).
CREATE TABLE {schema}.folded (
    key text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    due bigint,
    body text NOT NULL,
    PRIMARY KEY (key, id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000);

-- When an entry is due to be swept.
CREATE INDEX folded_due ON {schema}.folded (due) WHERE due IS NOT NULL;

-- The last turns. `number` grows by one, and the primary key excludes a second one of the same number.
CREATE TABLE {schema}.turn (
    number bigint PRIMARY KEY,
    id text NOT NULL, -- unique
    keys text, -- the records that it changed, for other servers' caches; null: perhaps any
    since bigint, -- in the newest turn: the changes of this turn and later ones are not in `folded` yet; null: all are
    pages integer -- number of rows of `page` that have them
);

-- Changes that are not in `folded` yet. Each journal overwrites the rows in place, from the first on: one of PostgreSQL's
-- pages holds two versions of a row, and none has to be vacuumed away.
CREATE TABLE {schema}.page (
    slot integer PRIMARY KEY,
    number bigint NOT NULL, -- the turn that wrote it; one that is older than `since` is of a journal before
    body bytea NOT NULL -- a part of its changes, as four lists parted by 0x1d: see `whole_turn`
) WITH (fillfactor = 50);
ALTER TABLE {schema}.page ALTER COLUMN body SET STORAGE PLAIN;

-- History: rows are only appended, and deleted at the old end. One row has the events of a turn.
CREATE TABLE {schema}.history (
    seq bigint PRIMARY KEY, -- of the last of its events; they are numbered in the order of commits
    at bigint NOT NULL, -- of the last of its events
    told integer NOT NULL, -- number of its events
    kinds text NOT NULL, -- their kinds
    events text NOT NULL -- a JSON array of them
) WITH (toast_tuple_target = 8160); -- events of a usual turn are not moved out of their row
CREATE SEQUENCE {schema}.event_seq;

-- Fences: `last_value` is the next unused one.
CREATE SEQUENCE {schema}.fence AS bigint START WITH 1 MAXVALUE 9007199254740991;

-- The latest time that was used, in microseconds: the clock never goes below it.
CREATE SEQUENCE {schema}.latest AS bigint;

-- One row about the database itself.
CREATE TABLE {schema}.meta (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version integer NOT NULL, -- of this schema
    database text NOT NULL, -- a random name of this database
    system text NOT NULL, -- the PostgreSQL server that it was on last,
    timeline text NOT NULL, -- and its timeline
    epoch integer NOT NULL, -- how often that changed
    opens_at bigint NOT NULL, -- nothing new is granted before this time, see docs/how-to/postgresql.md
    longest bigint NOT NULL, -- the longest TTL that was ever granted, in microseconds
    lane integer NOT NULL, -- the number of this lane; 0: the control lane, or a store that is not divided
    lanes integer NOT NULL -- how many lanes the store has besides the control lane; 1: it is not divided
);

-- The journal: the net effect of changes that are not in `folded` yet. A row without a body is a dropped entry.
CREATE VIEW {schema}.journal AS
SELECT DISTINCT ON (change.key COLLATE "C", change.id COLLATE "C")
    change.key COLLATE "C" AS key,
    change.id COLLATE "C" AS id,
    change.due::bigint AS due,
    change.body
FROM
    (
        SELECT
            page.number,
            string_to_array(convert_from(string_agg(page.body, ''::bytea ORDER BY page.slot), 'UTF8'), E'\x1d') AS lists
        FROM {schema}.page
        WHERE
            (SELECT since FROM {schema}.turn ORDER BY number DESC LIMIT 1) IS NOT NULL -- else the table is not even read
            AND page.number >= (SELECT since FROM {schema}.turn ORDER BY number DESC LIMIT 1)
        GROUP BY page.number
    ) AS told,
    unnest(
        string_to_array(told.lists[1], E'\x1f'), string_to_array(told.lists[2], E'\x1f'),
        string_to_array(told.lists[3], E'\x1f', ''), string_to_array(told.lists[4], E'\n')
    ) AS change (key, id, due, body)
ORDER BY change.key COLLATE "C", change.id COLLATE "C", told.number DESC;

-- All entries, for readers outside of a turn.
CREATE VIEW {schema}.entry AS
WITH change AS MATERIALIZED (SELECT * FROM {schema}.journal)
SELECT key, id, due, body FROM {schema}.folded
WHERE NOT EXISTS (SELECT FROM change WHERE change.key = folded.key AND change.id = folded.id)
UNION ALL
SELECT key, id, due, body FROM change WHERE body IS NOT NULL;

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
FROM (
    SELECT body::json AS body FROM {schema}.entry WHERE key >= 'n' AND key < 'o' AND id >= 'l' AND id < 'm'
) AS packed
WHERE
    body ->> 0 = 'h'
    AND json_typeof(body -> 10) = 'array'
    AND body ->> 12 = 'false'
    AND (body ->> 8)::bigint > extract(epoch FROM clock_timestamp()) * 1e6;

-- Fold the journal into the table. The turn's own row, without `since`, records that.
CREATE FUNCTION {schema}.fold() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH
    change AS MATERIALIZED (SELECT * FROM {schema}.journal),
    gone AS (
        DELETE FROM {schema}.folded USING change
        WHERE change.body IS NULL AND folded.key = change.key AND folded.id = change.id
    )
    INSERT INTO {schema}.folded (key, id, due, body)
    SELECT key, id, due, body FROM change WHERE body IS NOT NULL
    ON CONFLICT (key, id) DO UPDATE SET due = excluded.due, body = excluded.body;
END $$;

-- Begin a turn: take the lock, then read the clock, the numbers, the records that the turns since the known one have
-- changed, and the records that are missing. A journal is folded first. Each statement in here sees what was committed
-- before it began.
-- A list is one text, with 0x1f between its items; found records have 0x1e between them, each as key, 0x1f, body.
CREATE FUNCTION {schema}.begin_turn(
    in_salt bigint,
    in_patience text,
    in_silence text,
    in_number bigint, -- the turn that is known,
    in_id text,
    in_missing text, -- of what is wanted: what is not known,
    in_wanted text, -- and all
    OUT is_now bigint,
    OUT next_fence bigint,
    OUT last_number bigint,
    OUT last_id text,
    OUT changed text, -- null: perhaps anything
    OUT entries text,
    OUT of_meta integer,
    OUT of_timeline text,
    OUT of_opening bigint,
    OUT of_longest bigint,
    OUT here text,
    OUT is_synchronous boolean,
    OUT of_lane integer,
    OUT of_lanes integer
) LANGUAGE plpgsql AS $$
DECLARE
    needed text[] := string_to_array(in_missing, E'\x1f');
    of_journal bigint;
BEGIN
    -- Plans are kept while tables grow, so they must not be made for small ones. And only a plain index scan marks dead
    -- rows in the index, of which the record of a busy holder has many.
    PERFORM
        set_config('lock_timeout', in_patience, true),
        set_config('idle_in_transaction_session_timeout', in_silence, true),
        set_config('statement_timeout', '0', true),
        set_config('enable_seqscan', 'off', true),
        set_config('enable_bitmapscan', 'off', true),
        set_config('enable_hashjoin', 'off', true),
        set_config('enable_mergejoin', 'off', true);
    PERFORM pg_advisory_xact_lock(in_salt);
    SELECT
        setval(
            '{schema}.latest',
            greatest((SELECT last_value FROM {schema}.latest), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
        ),
        (SELECT last_value FROM {schema}.fence),
        version,
        timeline,
        opens_at,
        longest,
        substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8),
        current_setting('synchronous_standby_names') <> ''
            AND current_setting('synchronous_commit') IN ('on', 'remote_apply'),
        lane,
        lanes
    INTO is_now, next_fence, of_meta, of_timeline, of_opening, of_longest, here, is_synchronous, of_lane, of_lanes
    FROM {schema}.meta;
    SELECT number, id, since INTO last_number, last_id, of_journal FROM {schema}.turn ORDER BY number DESC LIMIT 1;
    IF of_journal IS NOT NULL THEN
        PERFORM {schema}.fold();
    END IF;
    IF last_id = in_id THEN
        changed := '';
    ELSE
        IF EXISTS (SELECT FROM {schema}.turn WHERE number = in_number AND id = in_id) THEN
            SELECT CASE WHEN bool_and(keys IS NOT NULL) THEN string_agg(keys, E'\x1f') END INTO changed
            FROM {schema}.turn WHERE number > in_number;
        END IF;
        SELECT array_agg(key) INTO needed FROM (
            SELECT unnest(needed) AS key
            UNION (
                SELECT unnest(string_to_array(in_wanted, E'\x1f'))
                INTERSECT SELECT unnest(string_to_array(coalesce(changed, in_wanted), E'\x1f'))
            )
        ) AS keys;
    END IF;
    IF cardinality(needed) > 0 THEN
        SELECT string_agg(key || E'\x1f' || body, E'\x1e') INTO entries FROM {schema}.folded WHERE key = ANY(needed);
    END IF;
END $$;

-- End a turn: write its entries, its history and its row. Afterwards all is in the table. Returns the time.
CREATE FUNCTION {schema}.end_turn(
    in_number bigint,
    in_id text,
    in_keys text,
    in_fence bigint,
    in_longest bigint, -- 0: nothing longer than what is known
    drop_keys text,
    drop_ids text,
    new_keys text, -- entries that did not exist,
    new_ids text,
    new_dues text,
    new_bodies text, -- these parted by lines
    put_keys text, -- and entries that may exist
    put_ids text,
    put_dues text,
    put_bodies text,
    in_at bigint,
    in_told integer,
    in_kinds text,
    in_events text,
    in_channel text,
    in_payloads text
) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    IF drop_keys <> '' THEN
        DELETE FROM {schema}.folded
        USING unnest(string_to_array(drop_keys, E'\x1f'), string_to_array(drop_ids, E'\x1f')) AS gone (key, id)
        WHERE folded.key = gone.key AND folded.id = gone.id;
    END IF;
    IF new_keys <> '' THEN
        INSERT INTO {schema}.folded (key, id, due, body)
        SELECT * FROM unnest(
            string_to_array(new_keys, E'\x1f'), string_to_array(new_ids, E'\x1f'),
            string_to_array(new_dues, E'\x1f', '')::bigint[], string_to_array(new_bodies, E'\n')
        );
    END IF;
    IF put_keys <> '' THEN
        INSERT INTO {schema}.folded (key, id, due, body)
        SELECT * FROM unnest(
            string_to_array(put_keys, E'\x1f'), string_to_array(put_ids, E'\x1f'),
            string_to_array(put_dues, E'\x1f', '')::bigint[], string_to_array(put_bodies, E'\n')
        )
        ON CONFLICT (key, id) DO UPDATE SET due = excluded.due, body = excluded.body;
    END IF;
    IF in_told > 0 THEN
        INSERT INTO {schema}.history (seq, at, told, kinds, events)
        SELECT
            setval('{schema}.event_seq', CASE WHEN is_called THEN last_value ELSE 0 END + in_told),
            in_at, in_told, in_kinds, in_events
        FROM {schema}.event_seq;
        -- A server that read the clock before this was set back goes on from there, and so must the others.
        PERFORM setval('{schema}.latest', greatest(last_value, in_at)) FROM {schema}.latest;
    END IF;
    INSERT INTO {schema}.turn (number, id, keys) VALUES (in_number, in_id, in_keys);
    IF in_number % 100 = 0 THEN
        DELETE FROM {schema}.turn WHERE number <= in_number - 1000;
    END IF;
    PERFORM setval('{schema}.fence', in_fence, false);
    IF in_longest > 0 THEN
        UPDATE {schema}.meta SET longest = greatest(longest, in_longest);
    END IF;
    IF in_payloads <> '' THEN
        PERFORM pg_notify(in_channel, payload) FROM unnest(string_to_array(in_payloads, E'\x1f')) AS payload;
    END IF;
    RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
END $$;

-- A whole turn in one statement, which is a transaction of its own: take the turn if everything that it was decided by is
-- still true, and append its changes to the journal. The time that it was decided by was the clock's a moment ago, and no
-- later one may have been used. The changes are four lists with 0x1d between them: keys and ids of all entries, and, for
-- those that exist, which come first, when they are due and their bodies. It waits for no lock. Returns the time.
-- Without an id it only takes the turn, for the statements that follow in its transaction.
-- An assignment costs a tenth of a statement here.
CREATE FUNCTION {schema}.whole_turn(
    in_salt bigint,
    in_now bigint,
    in_lag bigint,
    in_number bigint, -- the last turn,
    in_last text,
    in_fence bigint,
    in_version integer,
    in_timeline text,
    in_opening bigint,
    in_synchronous boolean,
    in_lane integer,
    in_lanes integer,
    in_id text, -- and this one; null: only take it
    in_keys text,
    next_fence bigint,
    in_longest bigint, -- 0: nothing longer than what is known
    in_since bigint,
    in_changes text,
    in_at bigint,
    in_told integer,
    in_kinds text,
    in_events text,
    in_channel text,
    in_payloads text
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    size constant integer := 3900; -- less than half a page
    changes constant bytea := convert_to(in_changes, 'UTF8');
    clock bigint;
    known record;
    begins integer;
    ends integer;
    written integer;
    setting text;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' OR current_setting('transaction_read_only') <> 'off' THEN
        RAISE feature_not_supported USING MESSAGE = 'this needs a transaction with its isolation named';
    END IF;
    setting := set_config('enable_seqscan', 'off', true); -- see `begin_turn`
    setting := set_config('enable_bitmapscan', 'off', true);
    IF NOT pg_try_advisory_xact_lock(in_salt) THEN
        RAISE serialization_failure USING MESSAGE = 'another server has a turn';
    END IF;
    clock := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    SELECT
        turn.number, turn.id, turn.pages, meta.version, meta.timeline, meta.opens_at, meta.lane, meta.lanes,
        fence.last_value AS fence, latest.last_value AS latest,
        CASE WHEN event_seq.is_called THEN event_seq.last_value ELSE 0 END AS seq
    INTO known
    FROM
        (SELECT number, id, pages FROM {schema}.turn ORDER BY number DESC LIMIT 1) AS turn,
        {schema}.meta, {schema}.fence, {schema}.latest, {schema}.event_seq;
    IF (
        known.number = in_number
        AND known.id = in_last
        AND known.version = in_version
        AND known.timeline = in_timeline
        AND known.opens_at = in_opening
        AND known.fence = in_fence
        AND known.lane = in_lane
        AND known.lanes = in_lanes
        AND in_now BETWEEN greatest(known.latest, clock - in_lag) AND clock
        AND in_timeline = substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
        AND (
            NOT in_synchronous
            OR current_setting('synchronous_standby_names') <> ''
            AND current_setting('synchronous_commit') IN ('on', 'remote_apply')
        )
    ) IS NOT TRUE THEN
        RAISE serialization_failure USING MESSAGE = 'what was known is not true any more';
    END IF;
    clock := setval('{schema}.latest', in_now);
    IF in_id IS NULL THEN
        setting := set_config('enable_hashjoin', 'off', true);
        setting := set_config('enable_mergejoin', 'off', true);
        setting := set_config('idle_in_transaction_session_timeout', '2s', true); -- as for `begin_turn`
        setting := set_config('statement_timeout', '0', true);
        RETURN clock;
    END IF;
    clock := setval('{schema}.fence', next_fence, false);
    IF in_told > 0 THEN
        clock := setval('{schema}.event_seq', known.seq + in_told);
        INSERT INTO {schema}.history (seq, at, told, kinds, events)
        VALUES (known.seq + in_told, in_at, in_told, in_kinds, in_events);
    END IF;
    begins := coalesce(known.pages, 0);
    ends := begins + (length(changes) + size - 1) / size;
    UPDATE {schema}.page SET number = in_number + 1, body = substr(changes, (slot - begins) * size + 1, size)
    WHERE slot >= begins AND slot < ends;
    GET DIAGNOSTICS written = ROW_COUNT;
    IF begins + written < ends THEN
        INSERT INTO {schema}.page (slot, number, body)
        SELECT more, in_number + 1, substr(changes, (more - begins) * size + 1, size)
        FROM generate_series(begins + written, ends - 1) AS more;
    END IF;
    INSERT INTO {schema}.turn (number, id, keys, since, pages) VALUES (in_number + 1, in_id, in_keys, in_since, ends);
    IF in_number % 100 = 99 THEN
        DELETE FROM {schema}.turn WHERE number <= in_number - 999;
    END IF;
    IF in_longest > 0 THEN
        UPDATE {schema}.meta SET longest = greatest(longest, in_longest);
    END IF;
    IF in_payloads <> '' THEN
        PERFORM pg_notify(in_channel, payload) FROM unnest(string_to_array(in_payloads, E'\x1f')) AS payload;
    END IF;
    RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
END $$;
