-- A server that is alone leaves what it changes in a journal (docs/adr). It is brought into the table now and then by itself,
-- and by whoever else has the next turn. What was called `entry` until now, and what a server of an earlier version looks
-- at, is what both come to.

ALTER TABLE {schema}.entry RENAME TO folded;
ALTER INDEX {schema}.entry_pkey RENAME TO folded_pkey;
ALTER INDEX {schema}.entry_due RENAME TO folded_due;

ALTER TABLE {schema}.turn
    ADD COLUMN since bigint, -- in the newest: what this turn and those after it have changed is not in `folded` yet
    ADD COLUMN pages integer; -- and so many rows of `page` have it

-- What is not in `folded` yet. Rows are written over from the first on, where they are, for each journal anew: there are two
-- to a page of PostgreSQL's, the one that counts and the one before, and none has to be cleared away.
CREATE TABLE {schema}.page (
    slot integer PRIMARY KEY,
    number bigint NOT NULL, -- the turn that wrote it; one that is older than `since` is of a journal before
    body bytea NOT NULL -- a part of its changes, as four lists parted by 0x1d: see `end_turn`
) WITH (fillfactor = 50);
ALTER TABLE {schema}.page ALTER COLUMN body SET STORAGE PLAIN;

-- The journal: what the changes that are not in `folded` yet come to. Without a body: there is no such entry any more.
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
            (SELECT since FROM {schema}.turn ORDER BY number DESC LIMIT 1) IS NOT NULL -- else it is not even looked at
            AND page.number >= (SELECT since FROM {schema}.turn ORDER BY number DESC LIMIT 1)
        GROUP BY page.number
    ) AS told,
    unnest(
        string_to_array(told.lists[1], E'\x1f'), string_to_array(told.lists[2], E'\x1f'),
        string_to_array(told.lists[3], E'\x1f', ''), string_to_array(told.lists[4], E'\n')
    ) AS change (key, id, due, body)
ORDER BY change.key COLLATE "C", change.id COLLATE "C", told.number DESC;

-- All entries, for whoever looks without having a turn.
CREATE VIEW {schema}.entry AS
WITH change AS MATERIALIZED (SELECT * FROM {schema}.journal)
SELECT key, id, due, body FROM {schema}.folded
WHERE NOT EXISTS (SELECT FROM change WHERE change.key = folded.key AND change.id = folded.id)
UNION ALL
SELECT key, id, due, body FROM change WHERE body IS NOT NULL;

-- For people: what is held now.
CREATE OR REPLACE VIEW {schema}.leases AS
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

-- Who could use the tables before can use these.
DO $$
DECLARE
    theirs name;
BEGIN
    FOR theirs IN
        SELECT DISTINCT grantee FROM information_schema.role_table_grants
        WHERE table_schema = '{schema}' AND table_name = 'turn' AND privilege_type = 'INSERT'
            AND grantee NOT IN ('PUBLIC', current_user)
    LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE ON {schema}.page TO %I', theirs);
        EXECUTE format('GRANT SELECT ON {schema}.entry, {schema}.journal TO %I', theirs);
    END LOOP;
END $$;

-- Bring the journal into the table, within a turn: the row that this leaves says that it was.
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

-- Begin a turn: wait until it is ours, then read the clock, the numbers, what the turns since the one that is known have
-- changed, and the records that are missing. If there is a journal, it is brought into the table first. Each statement in
-- here sees what was committed before it began.
-- Lists go as one text: items are parted by 0x1f; records that are found, by 0x1e, each as key, 0x1f, body.
CREATE OR REPLACE FUNCTION {schema}.begin_turn(
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
    OUT is_synchronous boolean
) LANGUAGE plpgsql AS $$
DECLARE
    needed text[] := string_to_array(in_missing, E'\x1f');
    of_journal bigint;
BEGIN
    -- Plans are kept while tables grow: they must not be made for small ones. And only a plain look into an index marks
    -- what is dead there, of which the record of a busy holder has a lot.
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
            AND current_setting('synchronous_commit') IN ('on', 'remote_apply')
    INTO is_now, next_fence, of_meta, of_timeline, of_opening, of_longest, here, is_synchronous
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

-- Write what a turn has decided: entries, and history. It can be a part of it, while the rest is still being decided.
CREATE OR REPLACE FUNCTION {schema}.write_part(
    drop_keys text,
    drop_ids text,
    new_keys text, -- entries that there were not,
    new_ids text,
    new_dues text,
    new_bodies text, -- these parted by lines
    put_keys text, -- and those that there may have been
    put_ids text,
    put_dues text,
    put_bodies text,
    in_at bigint,
    in_told integer,
    in_kinds text,
    in_events text
) RETURNS void LANGUAGE plpgsql AS $$
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
    END IF;
END $$;

DROP FUNCTION {schema}.end_turn;

-- Leave what a turn has changed in the journal, where the turn before has ended: all entries by record and id, and of those
-- that there are now, which come first, when they are due and what they are. It hands back where this one ends.
CREATE FUNCTION {schema}.write_journal(in_number bigint, in_keys text, in_ids text, in_dues text, in_bodies text)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    size constant integer := 3900; -- less than half a page
    changes constant bytea := convert_to(concat_ws(E'\x1d', in_keys, in_ids, in_dues, in_bodies), 'UTF8');
    begins constant integer := coalesce((SELECT pages FROM {schema}.turn WHERE number = in_number - 1), 0);
    ends constant integer := begins + (length(changes) + size - 1) / size;
    written integer;
BEGIN
    UPDATE {schema}.page SET number = in_number, body = substr(changes, (slot - begins) * size + 1, size)
    WHERE slot >= begins AND slot < ends;
    GET DIAGNOSTICS written = ROW_COUNT;
    IF begins + written < ends THEN
        INSERT INTO {schema}.page (slot, number, body)
        SELECT more, in_number, substr(changes, (more - begins) * size + 1, size)
        FROM generate_series(begins + written, ends - 1) AS more;
    END IF;
    RETURN ends;
END $$;

-- End it: what is left to write, and that it was. With `in_since` it is left in the journal, from the last four lists: see
-- above. It hands back the time.
CREATE FUNCTION {schema}.end_turn(
    in_number bigint,
    in_id text,
    in_keys text,
    in_fence bigint,
    in_longest bigint, -- 0: nothing longer than what is known
    drop_keys text,
    drop_ids text,
    new_keys text,
    new_ids text,
    new_dues text,
    new_bodies text,
    put_keys text,
    put_ids text,
    put_dues text,
    put_bodies text,
    in_at bigint,
    in_told integer,
    in_kinds text,
    in_events text,
    in_channel text,
    in_payloads text,
    in_since bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    IF in_since IS NULL THEN
        PERFORM {schema}.write_part(
            drop_keys, drop_ids, new_keys, new_ids, new_dues, new_bodies, put_keys, put_ids, put_dues, put_bodies,
            in_at, in_told, in_kinds, in_events
        );
        INSERT INTO {schema}.turn (number, id, keys) VALUES (in_number, in_id, in_keys);
    ELSE
        PERFORM {schema}.write_part('', '', '', '', '', '', '', '', '', '', in_at, in_told, in_kinds, in_events);
        INSERT INTO {schema}.turn (number, id, keys, since, pages) VALUES (
            in_number, in_id, in_keys, in_since,
            {schema}.write_journal(in_number, put_keys, put_ids, put_dues, put_bodies)
        );
    END IF;
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
