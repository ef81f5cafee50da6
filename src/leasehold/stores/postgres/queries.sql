-- Every statement of the PostgreSQL store except `schema.sql`. `{schema}` is the schema of its tables.
-- Statements of a turn have numbered values; `RoundTrip` sends them, with each list as one text (see `schema.sql`).

-- name: begin
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE

-- name: begin_turn
SELECT * FROM {schema}.begin_turn($1::bigint, $2, $3, $4::bigint, $5, $6, $7)

-- name: load_all
-- In a turn that was waited for, all is in the table.
SELECT count(*), string_agg(key || E'\x1f' || body, E'\x1e')
FROM (SELECT key, body FROM {schema}.folded LIMIT $1::bigint) AS loaded

-- name: load
SELECT string_agg(key || E'\x1f' || body, E'\x1e') FROM {schema}.folded WHERE key = ANY(string_to_array($1, E'\x1f'))

-- name: due
SELECT string_agg(key, E'\x1f' ORDER BY due)
FROM (SELECT key, due FROM {schema}.folded WHERE due <= $1::bigint ORDER BY due LIMIT $2::bigint) AS come

-- name: end_turn
SELECT {schema}.end_turn(
    $1::bigint, $2, $3, $4::bigint, $5::bigint, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,
    $16::bigint, $17::integer, $18, $19, $20, $21
)

-- name: whole_turn
SELECT {schema}.whole_turn(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24
)

-- name: commit
COMMIT

-- name: rollback
ROLLBACK

-- name: turn
SELECT pg_advisory_xact_lock(%(salt)s);

-- name: settle_doubt
SELECT set_config('lock_timeout', %(patience)s, true), pg_advisory_xact_lock_shared(%(salt)s);

-- name: read
SELECT moment.now, entry.key, entry.body
FROM (
    SELECT greatest(last_value, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now FROM {schema}.latest
) AS moment
LEFT JOIN {schema}.entry ON entry.key = ANY(string_to_array(%(keys)s, E'\x1f'));

-- name: scan
SELECT key, body FROM {schema}.entry WHERE key >= %(first)s AND key < %(last)s ORDER BY key;

-- name: history
-- The turns with the newest events of a page, and no more of them than there are events wanted. Values are known when the
-- query is planned, so a filter that is not used costs nothing.
SELECT seq, events
FROM (
    SELECT seq, events, sum(told) OVER (ORDER BY seq DESC) - told AS newer
    FROM (
        SELECT seq, told, events
        FROM {schema}.history
        WHERE
            seq < %(after)s
            AND seq <= coalesce((SELECT min(seq) FROM {schema}.history WHERE seq >= %(before)s), %(before)s)
            AND at >= %(since)s
            AND (%(kinds)s = '' OR kinds LIKE ANY(string_to_array(%(kinds)s, E'\x1f')))
            AND (%(space)s = '' OR strpos(events, %(space)s) > 0 OR strpos(events, %(space_in_ascii)s) > 0)
            AND (%(resource)s = '' OR strpos(events, %(resource)s) > 0 OR strpos(events, %(resource_in_ascii)s) > 0)
            AND (%(holder)s = '' OR strpos(events, %(holder)s) > 0 OR strpos(events, %(holder_in_ascii)s) > 0)
            AND (%(lease)s = '' OR strpos(events, %(lease)s) > 0 OR strpos(events, %(lease_in_ascii)s) > 0)
        ORDER BY seq DESC
        LIMIT %(turns)s
    ) AS page
) AS counted
WHERE newer < %(wanted)s
ORDER BY seq DESC;

-- name: prune
WITH gone AS (DELETE FROM {schema}.history WHERE seq IN (
    SELECT seq FROM {schema}.history
    WHERE at < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - %(age)s
        OR seq <= (SELECT max(seq) FROM {schema}.history) - %(rows)s
    ORDER BY seq LIMIT %(chunk)s
    FOR UPDATE SKIP LOCKED
) RETURNING told)
SELECT coalesce(sum(told), 0) FROM gone;

-- name: identity
-- With the oid of the schema, which changes if it is restored from a dump, even on the same server.
SELECT system_identifier || '/' || (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = '{schema}'),
    substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
FROM pg_control_system();

-- name: known_identity
SELECT system, timeline FROM {schema}.meta;

-- name: version
SELECT version FROM {schema}.meta;

-- name: layout
SELECT lane, lanes FROM {schema}.meta;

-- name: exists
-- From the catalog itself: `to_regclass` may use a cache from before the lock was taken.
SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = '{schema}' AND tablename = 'meta';

-- name: has_schema
SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = '{schema}';

-- name: may_create
SELECT CASE
    WHEN EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = '{schema}')
        THEN has_schema_privilege('{schema}', 'CREATE')
    ELSE has_database_privilege(current_database(), 'CREATE')
END;

-- name: condition
-- Whether nothing can be written, whether replication is synchronous, and how long nothing new is granted.
SELECT
    pg_is_in_recovery(),
    current_setting('synchronous_standby_names') <> '' AND current_setting('synchronous_commit') IN ('on', 'remote_apply'),
    greatest(0, meta.opens_at - greatest(latest.last_value, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
FROM {schema}.meta, {schema}.latest;

-- name: first_meta
INSERT INTO {schema}.meta (version, database, system, timeline, epoch, opens_at, longest, lane, lanes)
VALUES (%(version)s, %(database)s, %(system)s, %(timeline)s, 1, 0, %(longest)s, %(lane)s, %(lanes)s);

-- name: meta_for_update
SELECT system, timeline, longest FROM {schema}.meta FOR UPDATE;

-- name: new_epoch
SELECT setval('{schema}.fence', last_value + %(skip)s, false) FROM {schema}.fence;
UPDATE {schema}.meta
SET
    system = %(system)s,
    timeline = %(timeline)s,
    epoch = epoch + 1,
    opens_at = greatest(
        opens_at,
        (
            SELECT greatest(last_value, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
            FROM {schema}.latest
        ) + %(pause)s
    );

-- name: patience
SELECT set_config('lock_timeout', %(patience)s, true);

-- name: fold_all
-- As a turn of its own, which changed anything: no server may go on with what it remembers.
SELECT {schema}.fold();
INSERT INTO {schema}.turn (number, id, keys) SELECT coalesce(max(number), 0) + 1, %(id)s, NULL FROM {schema}.turn;

-- name: move_records
-- Those of spaces: the first byte of a key's hash is that of its space.
WITH gone AS (
    DELETE FROM {schema}.folded
    WHERE substr(key, 1, 1) IN ('n', 'a', 'q') AND ('x' || substr(key, 2, 2))::bit(8)::integer %% %(lanes)s + 1 = %(lane)s
    RETURNING key, id, due, body
)
INSERT INTO {target}.folded (key, id, due, body) SELECT key, id, due, body FROM gone;

-- name: told
SELECT at, told, kinds, events, (SELECT lane FROM {schema}.meta) AS lane, seq FROM {schema}.history;

-- name: last_event
SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {schema}.event_seq;

-- name: join_histories
-- All turns of all lanes by time, with numbers after that of the last event; then those with the old numbers go.
INSERT INTO {schema}.history (seq, at, told, kinds, events)
SELECT %(last)s + sum(told.told) OVER (ORDER BY told.at, told.lane, told.seq), told.at, told.told, told.kinds, told.events
FROM (/* told */) AS told;
DELETE FROM {schema}.history WHERE seq <= %(last)s;
SELECT setval('{schema}.event_seq', max(seq)) FROM {schema}.history HAVING count(*) > 0;

-- name: forget_history
DELETE FROM {schema}.history;

-- name: counters
SELECT fence.last_value, latest.last_value, meta.opens_at, meta.longest
FROM {schema}.fence, {schema}.latest, {schema}.meta;

-- name: set_counters
SELECT setval('{schema}.fence', %(fence)s, false), setval('{schema}.latest', %(latest)s);
UPDATE {schema}.meta SET lanes = %(lanes)s, opens_at = %(opens_at)s, longest = %(longest)s;
