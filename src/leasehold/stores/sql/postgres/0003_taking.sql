-- What a turn has decided can be written in parts, while the rest of it is still being decided; and a turn can be taken
-- when everything in it is decided already, by who knows all records (docs/adr).

DROP FUNCTION {schema}.end_turn;

-- Take a turn on the strength of what is known, and has been decided by: all of it must still be true. The time that was
-- decided by was the clock's a moment ago; nobody may have been told a later one.
CREATE FUNCTION {schema}.take_turn(
    in_salt bigint,
    in_patience text,
    in_silence text,
    in_now bigint,
    in_lag bigint, -- so much later may it be by now
    in_number bigint, -- the last turn,
    in_id text,
    in_fence bigint,
    in_version integer,
    in_timeline text,
    in_opening bigint,
    in_synchronous boolean -- whether replication must be
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    clock bigint;
BEGIN
    PERFORM
        set_config('lock_timeout', in_patience, true),
        set_config('idle_in_transaction_session_timeout', in_silence, true),
        set_config('statement_timeout', '0', true),
        set_config('enable_seqscan', 'off', true),
        set_config('enable_bitmapscan', 'off', true),
        set_config('enable_hashjoin', 'off', true),
        set_config('enable_mergejoin', 'off', true);
    PERFORM pg_advisory_xact_lock(in_salt);
    clock := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    PERFORM FROM {schema}.meta, {schema}.fence, {schema}.latest
    WHERE
        meta.version = in_version
        AND meta.timeline = in_timeline
        AND meta.opens_at = in_opening
        AND fence.last_value = in_fence
        AND in_now BETWEEN greatest(latest.last_value, clock - in_lag) AND clock
        AND in_timeline = substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
        AND (
            NOT in_synchronous
            OR current_setting('synchronous_standby_names') <> ''
            AND current_setting('synchronous_commit') IN ('on', 'remote_apply')
        )
        AND in_id = (SELECT id FROM {schema}.turn WHERE number = in_number)
        AND NOT EXISTS (SELECT FROM {schema}.turn WHERE number > in_number);
    IF NOT FOUND THEN
        RAISE serialization_failure USING MESSAGE = 'what was known is not true any more';
    END IF;
    PERFORM setval('{schema}.latest', in_now);
END $$;

-- Write what a turn has decided: entries, and history. It can be a part of it, while the rest is still being decided.
CREATE FUNCTION {schema}.write_part(
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
        DELETE FROM {schema}.entry AS entry
        USING unnest(string_to_array(drop_keys, E'\x1f'), string_to_array(drop_ids, E'\x1f')) AS gone (key, id)
        WHERE entry.key = gone.key AND entry.id = gone.id;
    END IF;
    IF new_keys <> '' THEN
        INSERT INTO {schema}.entry (key, id, due, body)
        SELECT * FROM unnest(
            string_to_array(new_keys, E'\x1f'), string_to_array(new_ids, E'\x1f'),
            string_to_array(new_dues, E'\x1f', '')::bigint[], string_to_array(new_bodies, E'\n')
        );
    END IF;
    IF put_keys <> '' THEN
        INSERT INTO {schema}.entry (key, id, due, body)
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

-- End it: what is left to write, and that it was. It hands back the time.
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
    in_payloads text
) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM {schema}.write_part(
        drop_keys, drop_ids, new_keys, new_ids, new_dues, new_bodies, put_keys, put_ids, put_dues, put_bodies,
        in_at, in_told, in_kinds, in_events
    );
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
