-- Every statement of the PostgreSQL store but the migrations. `{schema}` is where its tables are.
-- Several statements under one name go over the wire together. Each of them sees what was committed before it began,
-- so what is read after a lock was taken is what the lock protects.

-- name: begin
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SELECT
    set_config('lock_timeout', %(patience)s, true),
    set_config('idle_in_transaction_session_timeout', %(patience)s, true),
    set_config('statement_timeout', '0', true),
    pg_advisory_xact_lock(hashtextextended(%(store)s, %(salt)s));

-- name: lock_shared
SELECT pg_advisory_xact_lock_shared(%(salt)s);
SELECT count(pg_advisory_xact_lock(lock)) FROM (
    SELECT DISTINCT hashtextextended(key, %(salt)s) AS lock FROM unnest(%(keys)s::text[]) AS key ORDER BY 1
) AS locks;

-- name: lock_alone
SELECT pg_advisory_xact_lock(%(salt)s);

-- name: try_lock
SELECT coalesce(bool_and(pg_try_advisory_xact_lock(hashtextextended(key, %(salt)s))), true)
FROM unnest(%(keys)s::text[]) AS key;

-- name: state
SELECT
    setval(
        '{schema}.latest',
        greatest((SELECT last_value FROM {schema}.latest), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
    ),
    nextval('{schema}.fence'),
    version,
    timeline,
    opens_at,
    longest,
    substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8),
    current_setting('synchronous_standby_names') <> '' AND current_setting('synchronous_commit') IN ('on', 'remote_apply')
FROM {schema}.meta;

-- name: load
SELECT key, body::text FROM {schema}.entry WHERE key = ANY(%(keys)s::text[]);

-- name: more_fences
SELECT setval('{schema}.fence', nextval('{schema}.fence') + %(more)s);

-- name: due
WITH come AS MATERIALIZED (
    SELECT key FROM {schema}.entry WHERE due <= %(now)s ORDER BY due LIMIT %(limit)s
)
SELECT DISTINCT key FROM come WHERE pg_try_advisory_xact_lock(hashtextextended(key, %(salt)s));

-- name: put
INSERT INTO {schema}.entry (key, id, due, body)
SELECT * FROM unnest(%(put_keys)s::text[], %(put_ids)s::text[], %(put_dues)s::bigint[], %(put_bodies)s::json[])
ON CONFLICT (key, id) DO UPDATE SET due = excluded.due, body = excluded.body;

-- name: drop
DELETE FROM {schema}.entry AS entry
USING unnest(%(drop_keys)s::text[], %(drop_ids)s::text[]) AS gone (key, id)
WHERE entry.key = gone.key AND entry.id = gone.id;

-- name: tell
SELECT pg_advisory_xact_lock(hashtextextended('event', %(salt)s));
INSERT INTO {schema}.event (at, kind, space, lease, fence, holder, session, resources, detail)
SELECT * FROM unnest(
    %(ats)s::bigint[], %(kinds)s::text[], %(spaces)s::text[], %(leases)s::text[], %(fences)s::bigint[],
    %(holders)s::text[], %(sessions)s::text[], %(resources)s::jsonb[], %(details)s::json[]
);

-- name: note_longest
UPDATE {schema}.meta SET longest = greatest(longest, %(longest)s);

-- name: notify
SELECT pg_notify(%(channel)s, payload) FROM unnest(%(payloads)s::text[]) AS payload;

-- name: commit
COMMIT;

-- name: settle_doubt
SELECT set_config('lock_timeout', %(patience)s, true), pg_advisory_xact_lock(hashtextextended(%(store)s, %(salt)s));

-- name: read
SELECT moment.now, entry.key, entry.body::text
FROM (
    SELECT greatest(last_value, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now FROM {schema}.latest
) AS moment
LEFT JOIN {schema}.entry ON entry.key = ANY(%(keys)s::text[]);

-- name: scan
SELECT key, body::text FROM {schema}.entry WHERE key >= %(first)s AND key < %(last)s ORDER BY key;

-- name: history
SELECT kind, at, space, resources::text, holder, session, lease, fence, detail::text, seq
FROM {schema}.event
WHERE
    (%(space)s::text IS NULL OR space = %(space)s)
    AND (%(holder)s::text IS NULL OR holder = %(holder)s)
    AND (%(lease)s::text IS NULL OR lease = %(lease)s)
    AND (%(resource)s::text IS NULL OR resources ? %(resource)s)
    AND (%(kinds)s::text[] IS NULL OR kind = ANY(%(kinds)s))
    AND (%(since)s::bigint IS NULL OR at >= %(since)s)
    AND (%(before)s::bigint IS NULL OR seq < %(before)s)
ORDER BY seq DESC
LIMIT %(limit)s;

-- name: prune
WITH gone AS (DELETE FROM {schema}.event WHERE seq IN (
    SELECT seq FROM {schema}.event
    WHERE at < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - %(age)s
        OR seq <= (SELECT max(seq) FROM {schema}.event) - %(rows)s
    ORDER BY seq LIMIT %(chunk)s
    FOR UPDATE SKIP LOCKED
) RETURNING 1)
SELECT count(*) FROM gone;

-- name: identity
SELECT system_identifier::text, substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) FROM pg_control_system();

-- name: known_identity
SELECT system, timeline FROM {schema}.meta;

-- name: version
SELECT version FROM {schema}.meta;

-- name: exists
-- From the catalog itself: what `to_regclass` remembers may be older than a lock that was waited for.
SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = '{schema}' AND tablename = 'meta';

-- name: has_schema
SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = '{schema}';

-- name: first_meta
INSERT INTO {schema}.meta (version, database, system, timeline, epoch, opens_at, longest)
VALUES (%(version)s, %(database)s, %(system)s, %(timeline)s, 1, 0, %(longest)s);

-- name: set_version
UPDATE {schema}.meta SET version = %(version)s;

-- name: meta_for_update
SELECT system, timeline, longest FROM {schema}.meta FOR UPDATE;

-- name: new_epoch
SELECT setval('{schema}.fence', nextval('{schema}.fence') + %(skip)s);
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
