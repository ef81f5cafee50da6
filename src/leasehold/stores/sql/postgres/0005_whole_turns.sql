-- A turn that was assumed is one statement, and no more a transaction of four (docs/adr). So `end_turn` is left to those who
-- bring all into the table.

DROP FUNCTION {schema}.end_turn;
DROP FUNCTION {schema}.write_journal;

-- End it: what is left to write, and that it was. All is in the table then. It hands back the time.
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

-- A whole turn in one statement, which is a transaction of its own: taken on the strength of what is known, as by
-- `take_turn`, and ended by leaving its changes in the journal, where the turn before has ended. They come as four lists
-- parted by 0x1d: all entries by record and id, and of those that there are now, which come first, when they are due and
-- what they are. It waits for nobody, and hands back the time.
-- What is assigned here costs a tenth of what a statement does.
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
    in_id text, -- and this one
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
        RAISE feature_not_supported USING MESSAGE = 'this needs a transaction that is told how to begin';
    END IF;
    setting := set_config('enable_seqscan', 'off', true); -- see `begin_turn`
    setting := set_config('enable_bitmapscan', 'off', true);
    IF NOT pg_try_advisory_xact_lock(in_salt) THEN
        RAISE serialization_failure USING MESSAGE = 'somebody else has a turn';
    END IF;
    clock := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    SELECT
        turn.number, turn.id, turn.pages, meta.version, meta.timeline, meta.opens_at,
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
