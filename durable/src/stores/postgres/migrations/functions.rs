//! Functions: what the schema offers to transactions of users, in SQL. `{s}` stands for the schema.
//!
//! They run with the rights of the role that has made the schema, so a role that may use the schema
//! needs no rights on its tables. Names in them are those of the schema or of `pg_catalog`.
//!
//! Those of number 3 are never changed: steps replace them, or add others (`steps.rs`).
//!
//! A function that ends, moves or replaces a timer enters the gate (GateEnter), locks the row
//! (RowLock) and reads the watermark in a statement after that (WatermarkLook). A timer that was
//! handed out is not locked any longer than the call: the savepoint is rolled back in which it was.

/// A key's partition: the first byte of its MD5.
pub(super) const PART: &str = "CREATE FUNCTION {s}.wheelwork_part(key text)
RETURNS smallint LANGUAGE sql IMMUTABLE AS $$
    SELECT ('x' || substr(md5(key), 1, 2))::bit(8)::int::smallint
$$";

pub(super) const CLOCK: &str = "CREATE FUNCTION {s}.wheelwork_clock()
RETURNS bigint LANGUAGE sql AS $$
    SELECT ceil(extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$";

/// A deadline in milliseconds: the past is the epoch, and no time is later than the last one.
pub(super) const MILLIS: &str = "CREATE FUNCTION {s}.wheelwork_millis(due timestamptz)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT ceil(extract(epoch FROM
        LEAST(GREATEST(due, to_timestamp(0)), to_timestamp(281474976710))) * 1000)::bigint
$$";

pub(super) const ID: &str = "CREATE FUNCTION {s}.wheelwork_id(part smallint, due bigint)
RETURNS uuid LANGUAGE sql AS $$
    SELECT (lpad(to_hex(part::int), 4, '0') || lpad(to_hex(due), 12, '0')
        || substr(md5(gen_random_uuid()::text), 1, 16))::uuid
$$";

/// WatermarkLook. `READ COMMITTED` has a new snapshot for each statement. Above it the snapshot is
/// old, and only a lock `FOR SHARE` tells (40001) that a row has changed since. The lock is given
/// back at once, since the owner writes these rows.
pub(super) const UPTO: &str = "CREATE FUNCTION {s}.wheelwork_upto(p smallint)
RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    o uuid;
    c bigint;
    u bigint;
BEGIN
    IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
        SELECT l.owner, l.claimed_upto, (SELECT w.upto FROM {s}.watermark w
                WHERE w.node = l.owner ORDER BY w.gen DESC LIMIT 1)
            INTO o, c, u FROM {s}.lease l WHERE l.part = p;
    ELSE
        BEGIN
            SELECT l.owner, l.claimed_upto INTO o, c FROM {s}.lease l WHERE l.part = p FOR SHARE;
            SELECT w.upto INTO u FROM {s}.watermark w WHERE w.node = o
                ORDER BY w.gen DESC LIMIT 1 FOR SHARE;
            RAISE EXCEPTION USING ERRCODE = 'WW002';
        EXCEPTION WHEN SQLSTATE 'WW002' THEN
            NULL;
        END;
    END IF;
    -- An owner without a watermark may have handed out anything.
    RETURN CASE WHEN o IS NULL THEN c ELSE GREATEST(c, COALESCE(u, 9223372036854775807)) END;
END
$$";

/// RowLock, by id: the deadline of the row, or null.
pub(super) const FIND: &str =
    "CREATE FUNCTION {s}.wheelwork_find(p smallint, first bigint, timer uuid)
RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    d bigint;
BEGIN
    LOOP
        SELECT t.due INTO d FROM {s}.timer t
            WHERE t.part = p AND t.due = first AND t.id = timer FOR UPDATE;
        EXIT WHEN FOUND;
        SELECT t.due INTO d FROM {s}.timer t WHERE t.part = p AND t.id = timer AND t.moved
            FOR UPDATE;
        EXIT WHEN FOUND;
        -- It was moved back while the other place was looked at, or is not there.
        EXIT WHEN NOT EXISTS (SELECT 1 FROM {s}.timer t
            WHERE t.part = p AND t.due = first AND t.id = timer)
            AND NOT EXISTS (SELECT 1 FROM {s}.timer t
                WHERE t.part = p AND t.id = timer AND t.moved);
    END LOOP;
    RETURN d;
END
$$";

/// RowLock, by key. The row that this waited for may have been replaced: then it looks again.
pub(super) const FIND_KEY: &str = "CREATE FUNCTION {s}.wheelwork_find_key(
    p smallint, name text, OUT d bigint, OUT timer uuid)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    LOOP
        SELECT t.due, t.id INTO d, timer FROM {s}.timer t WHERE t.part = p AND t.key = name
            FOR UPDATE;
        EXIT WHEN FOUND;
        EXIT WHEN NOT EXISTS (SELECT 1 FROM {s}.timer t WHERE t.part = p AND t.key = name);
    END LOOP;
END
$$";

pub(super) const ARM: &str = "CREATE FUNCTION {s}.wheelwork_arm(
    kind text, key text, due bigint, payload bytea, part smallint, id uuid)
RETURNS uuid LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    old record;
BEGIN
    IF $2 IS NULL THEN
        INSERT INTO {s}.timer (part, due, id, kind, key, payload, attempts, crashes, calendar,
                superseded, moved, epoch)
            VALUES ($5, $3, $6, $1, NULL, $4, 0, 0, NULL, false, false, 0);
        RETURN $6;
    END IF;
    PERFORM 1 FROM {s}.gate g WHERE g.part = $5 FOR SHARE;
    LOOP
        SELECT f.d, f.timer INTO old FROM {s}.wheelwork_find_key($5, $2) f;
        IF old.timer IS NULL THEN
            NULL;
        ELSIF old.d > {s}.wheelwork_upto($5) THEN
            DELETE FROM {s}.timer t WHERE t.part = $5 AND t.due = old.d AND t.id = old.timer;
        ELSE
            UPDATE {s}.timer t SET key = NULL, superseded = true
                WHERE t.part = $5 AND t.due = old.d AND t.id = old.timer;
        END IF;
        BEGIN
            INSERT INTO {s}.timer (part, due, id, kind, key, payload, attempts, crashes,
                    calendar, superseded, moved, epoch)
                VALUES ($5, $3, $6, $1, $2, $4, 0, 0, NULL, false, false, 0);
            RETURN $6;
        EXCEPTION WHEN unique_violation THEN
            -- Another transaction has armed it meanwhile: that timer is replaced.
            IF current_setting('transaction_isolation')
                NOT IN ('read committed', 'read uncommitted') THEN
                RAISE EXCEPTION 'another transaction has taken this key' USING ERRCODE = '40001';
            END IF;
        END;
    END LOOP;
END
$$";

/// Not before now: other nodes look for what is due, not for what was.
pub(super) const SCHEDULE_AT: &str = "CREATE FUNCTION {s}.wheelwork_schedule_at(
    kind text, due bigint, payload bytea, key text DEFAULT NULL)
RETURNS uuid LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {s}.wheelwork_arm($1, $4, w.due, $3, w.part, {s}.wheelwork_id(w.part, w.due))
    FROM (SELECT LEAST(GREATEST($2, {s}.wheelwork_clock()), 281474976710655) AS due,
        COALESCE({s}.wheelwork_part($4), floor(random() * 256)::smallint) AS part) w
$$";

pub(super) const SCHEDULE: &str = "CREATE FUNCTION {s}.wheelwork_schedule(
    kind text, due timestamptz, payload bytea, key text DEFAULT NULL)
RETURNS uuid LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {s}.wheelwork_schedule_at($1, {s}.wheelwork_millis($2), $3, $4)
$$";

pub(super) const CANCEL: &str = "CREATE FUNCTION {s}.wheelwork_cancel(timer uuid)
RETURNS boolean LANGUAGE plpgsql VOLATILE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    part int := ('x' || substr($1::text, 1, 4))::bit(16)::int;
    first bigint := ('x' || substr(replace($1::text, '-', ''), 5, 12))::bit(48)::bigint;
    p smallint;
    d bigint;
BEGIN
    IF part > 255 THEN
        RETURN false;
    END IF;
    p := part;
    PERFORM 1 FROM {s}.gate g WHERE g.part = p FOR SHARE;
    d := {s}.wheelwork_find(p, first, $1);
    IF d IS NULL THEN
        RETURN false;
    END IF;
    IF d <= {s}.wheelwork_upto(p) THEN
        -- A recurring timer is struck: no further run begins.
        UPDATE {s}.timer t SET key = NULL, superseded = true WHERE t.part = p AND t.due = d
            AND t.id = $1 AND t.calendar IS NOT NULL AND NOT t.superseded;
        IF FOUND THEN
            RETURN true;
        END IF;
        RAISE EXCEPTION USING ERRCODE = 'WW001';
    END IF;
    DELETE FROM {s}.timer t WHERE t.part = p AND t.due = d AND t.id = $1;
    RETURN true;
EXCEPTION WHEN SQLSTATE 'WW001' THEN
    RETURN false;
END
$$";

pub(super) const CANCEL_KEY: &str = "CREATE FUNCTION {s}.wheelwork_cancel_key(key text)
RETURNS boolean LANGUAGE plpgsql VOLATILE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    p smallint := {s}.wheelwork_part($1);
    old record;
BEGIN
    PERFORM 1 FROM {s}.gate g WHERE g.part = p FOR SHARE;
    SELECT f.d, f.timer INTO old FROM {s}.wheelwork_find_key(p, $1) f;
    IF old.timer IS NULL THEN
        RETURN false;
    END IF;
    IF old.d <= {s}.wheelwork_upto(p) THEN
        UPDATE {s}.timer t SET key = NULL, superseded = true WHERE t.part = p AND t.due = old.d
            AND t.id = old.timer AND t.calendar IS NOT NULL AND NOT t.superseded;
        IF FOUND THEN
            RETURN true;
        END IF;
        RAISE EXCEPTION USING ERRCODE = 'WW001';
    END IF;
    DELETE FROM {s}.timer t WHERE t.part = p AND t.due = old.d AND t.id = old.timer;
    RETURN true;
EXCEPTION WHEN SQLSTATE 'WW001' THEN
    RETURN false;
END
$$";

pub(super) const RESCHEDULE_AT: &str = "CREATE FUNCTION {s}.wheelwork_reschedule_at(
    timer uuid, due bigint)
RETURNS boolean LANGUAGE plpgsql VOLATILE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    part int := ('x' || substr($1::text, 1, 4))::bit(16)::int;
    first bigint := ('x' || substr(replace($1::text, '-', ''), 5, 12))::bit(48)::bigint;
    next bigint := LEAST(GREATEST($2, {s}.wheelwork_clock()), 281474976710655);
    p smallint;
    d bigint;
BEGIN
    IF part > 255 THEN
        RETURN false;
    END IF;
    p := part;
    PERFORM 1 FROM {s}.gate g WHERE g.part = p FOR SHARE;
    d := {s}.wheelwork_find(p, first, $1);
    IF d IS NULL THEN
        RETURN false;
    END IF;
    IF d <= {s}.wheelwork_upto(p) THEN
        RAISE EXCEPTION USING ERRCODE = 'WW001';
    END IF;
    UPDATE {s}.timer t SET due = next, moved = next <> first
        WHERE t.part = p AND t.due = d AND t.id = $1 AND NOT t.superseded;
    RETURN FOUND;
EXCEPTION WHEN SQLSTATE 'WW001' THEN
    RETURN false;
END
$$";

pub(super) const RESCHEDULE: &str = "CREATE FUNCTION {s}.wheelwork_reschedule(
    timer uuid, due timestamptz)
RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {s}.wheelwork_reschedule_at($1, {s}.wheelwork_millis($2))
$$";

pub(super) const RESCHEDULE_KEY_AT: &str = "CREATE FUNCTION {s}.wheelwork_reschedule_key_at(
    key text, due bigint)
RETURNS boolean LANGUAGE plpgsql VOLATILE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    p smallint := {s}.wheelwork_part($1);
    next bigint := LEAST(GREATEST($2, {s}.wheelwork_clock()), 281474976710655);
    old record;
BEGIN
    PERFORM 1 FROM {s}.gate g WHERE g.part = p FOR SHARE;
    SELECT f.d, f.timer INTO old FROM {s}.wheelwork_find_key(p, $1) f;
    IF old.timer IS NULL THEN
        RETURN false;
    END IF;
    IF old.d <= {s}.wheelwork_upto(p) THEN
        RAISE EXCEPTION USING ERRCODE = 'WW001';
    END IF;
    UPDATE {s}.timer t SET due = next, moved = true
        WHERE t.part = p AND t.due = old.d AND t.id = old.timer;
    RETURN true;
EXCEPTION WHEN SQLSTATE 'WW001' THEN
    RETURN false;
END
$$";

pub(super) const RESCHEDULE_KEY: &str = "CREATE FUNCTION {s}.wheelwork_reschedule_key(
    key text, due timestamptz)
RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {s}.wheelwork_reschedule_key_at($1, {s}.wheelwork_millis($2))
$$";

/// FloorRaise, of step 4. No program below this number joins from now on, and none renews its
/// leases. If a node below it is alive, nothing is done: its name.
///
/// A role that may not write timers is refused: rights on a function are not among those that an
/// operator grants on tables, and a dump may leave them out. (Inside, `current_user` is the owner.)
/// A floor that has risen so never falls, so it rises to no number that a step could not make. (One
/// that has risen for held timers alone may fall: `RELEASE_HELD`.)
///
/// The lock of the table makes renewals that are under way come first. They are seen by a snapshot
/// that is taken after it. From the lock on the system ends a transaction that stands still for a
/// second: no node can renew before its end. Nodes whose leases have run out are dead afterwards,
/// as LeaseExpire makes them. The check holds for all rows that are written, so theirs get the
/// number.
pub(super) const CLOSE: &str = "CREATE FUNCTION {s}.wheelwork_close(number bigint, program text)
RETURNS text LANGUAGE plpgsql VOLATILE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    caller name := COALESCE(NULLIF(current_setting('role'), 'none'), session_user);
    former bigint;
    reached bigint;
    turn int;
    older text;
BEGIN
    IF NOT has_table_privilege(caller, '{s}.timer', 'UPDATE') THEN
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = 'a role that may not update {s}.timer may not raise the floor';
    END IF;
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION USING ERRCODE = '25001',
            MESSAGE = 'the floor is raised in read committed: an older snapshot lacks new nodes';
    END IF;
    SELECT m.version INTO former FROM {s}.meta m WHERE m.one = 1 FOR UPDATE;
    IF former >= $1 THEN
        DELETE FROM {s}.setting s WHERE s.name = 'floor_before_held' AND s.value < $1;
        RETURN NULL;
    END IF;
    SELECT s.value INTO reached FROM {s}.setting s WHERE s.name = 'step';
    IF $1 > COALESCE(reached, 3) + 1 THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = format('the schema has number %s: its floor cannot be %s', reached, $1);
    END IF;
    -- First beside renewals, which need not wait for a try that is in vain.
    FOR turn IN 0..1 LOOP
        IF turn = 1 THEN
            LOCK TABLE {s}.node IN ACCESS EXCLUSIVE MODE;
            PERFORM set_config('idle_in_transaction_session_timeout', '1s', true);
        END IF;
        SELECT n.name INTO older FROM {s}.node n
            WHERE n.version < $1 AND n.until > now() AND NOT n.dead ORDER BY n.name LIMIT 1;
        IF FOUND THEN
            RETURN older;
        END IF;
    END LOOP;
    UPDATE {s}.node n SET dead = true, version = $1 WHERE n.version < $1;
    EXECUTE 'ALTER TABLE {s}.node DROP CONSTRAINT IF EXISTS node_number';
    EXECUTE 'ALTER TABLE {s}.node ADD CONSTRAINT node_number CHECK (version >= ' || $1
        || ') NOT VALID';
    UPDATE {s}.meta m SET version = $1 WHERE m.one = 1;
    INSERT INTO {s}.setting (name, value, program) VALUES ('floor', $1, $2)
        ON CONFLICT (name) DO UPDATE SET value = $1, program = $2;
    DELETE FROM {s}.setting s WHERE s.name = 'floor_before_held';
    RETURN NULL;
END
$$";

/// Of step 5: the same for a timer that is held, when no node of such a program was alive within an
/// hour. Programs of numbers 3 and 4 do it no harm, but never hand it out. So this floor can fall
/// again, once no timer is held (`RELEASE_HELD`): what it was before is noted. A floor that rises
/// for another reason takes the note away.
pub(super) const CLOSE_FOR_HELD: &str = "CREATE FUNCTION {s}.wheelwork_close_for_held(program text)
RETURNS text LANGUAGE plpgsql VOLATILE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    former bigint;
    older text;
BEGIN
    SELECT m.version INTO former FROM {s}.meta m WHERE m.one = 1 FOR UPDATE;
    IF former >= 5 THEN
        RETURN NULL;
    END IF;
    -- One that was paused comes back, and nothing is wrong until then.
    SELECT n.name INTO older FROM {s}.node n
        WHERE n.version < 5 AND n.until > now() - interval '1 hour' ORDER BY n.name LIMIT 1;
    IF FOUND THEN
        RETURN older;
    END IF;
    older := {s}.wheelwork_close(5, $1);
    IF older IS NULL THEN
        INSERT INTO {s}.setting (name, value, program)
            VALUES ('floor_before_held', former, $1);
    END IF;
    RETURN older;
END
$$";

/// Of step 5: a timer that is moved is held no more.
pub(super) const RESCHEDULE_AT_5: &str = "CREATE OR REPLACE FUNCTION {s}.wheelwork_reschedule_at(
    timer uuid, due bigint)
RETURNS boolean LANGUAGE plpgsql VOLATILE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    part int := ('x' || substr($1::text, 1, 4))::bit(16)::int;
    first bigint := ('x' || substr(replace($1::text, '-', ''), 5, 12))::bit(48)::bigint;
    next bigint := LEAST(GREATEST($2, {s}.wheelwork_clock()), 281474976710655);
    p smallint;
    d bigint;
BEGIN
    p := {s}.wheelwork_small(part);
    PERFORM 1 FROM {s}.gate g WHERE g.part = {s}.wheelwork_gate(p) FOR SHARE;
    d := {s}.wheelwork_find(p, first, $1);
    IF d IS NULL THEN
        RETURN false;
    END IF;
    IF d <= {s}.wheelwork_upto(p) THEN
        RAISE EXCEPTION USING ERRCODE = 'WW001';
    END IF;
    UPDATE {s}.timer t SET due = next, moved = next <> first, held = 0,
            held_since = NULL
        WHERE t.part = p AND t.due = d AND t.id = $1 AND NOT t.superseded;
    RETURN FOUND;
EXCEPTION WHEN SQLSTATE 'WW001' THEN
    RETURN false;
END
$$";

/// Of step 5: the same, by key.
pub(super) const RESCHEDULE_KEY_AT_5: &str =
    "CREATE OR REPLACE FUNCTION {s}.wheelwork_reschedule_key_at(
    key text, due bigint)
RETURNS boolean LANGUAGE plpgsql VOLATILE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    p smallint := {s}.wheelwork_part($1);
    next bigint := LEAST(GREATEST($2, {s}.wheelwork_clock()), 281474976710655);
    old record;
BEGIN
    PERFORM 1 FROM {s}.gate g WHERE g.part = {s}.wheelwork_gate(p) FOR SHARE;
    SELECT f.d, f.timer INTO old FROM {s}.wheelwork_find_key(p, $1) f;
    IF old.timer IS NULL THEN
        RETURN false;
    END IF;
    IF old.d <= {s}.wheelwork_upto(p) THEN
        RAISE EXCEPTION USING ERRCODE = 'WW001';
    END IF;
    UPDATE {s}.timer t SET due = next, moved = true, held = 0, held_since = NULL
        WHERE t.part = p AND t.due = old.d AND t.id = old.timer;
    RETURN true;
EXCEPTION WHEN SQLSTATE 'WW001' THEN
    RETURN false;
END
$$";

/// Of step 5: releases all timers that are held, and says how many. Each gets the deadline that it
/// would have, or is due now. Programs that do not know of held timers never hand them out, so this
/// comes before the way back to them.
///
/// FloorFall: if the floor has risen for timers that are held, and for nothing else, it falls to
/// where it was. But it stays while a node is alive: that node knows that it has risen, and may
/// hold more. The lock of the table makes renewals that are under way come first. A node whose
/// lease is over is dead afterwards. It comes back under another name, and reads the floor anew.
///
/// A held timer is due 2^47 ms after the deadline that it would have. A timer with that mark and an
/// earlier deadline was moved by such a program: it is not held.
pub(super) const RELEASE_HELD: &str = "CREATE FUNCTION {s}.wheelwork_release_held()
RETURNS bigint LANGUAGE plpgsql VOLATILE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    caller name := COALESCE(NULLIF(current_setting('role'), 'none'), session_user);
    base constant bigint := 140737488355328;
    released bigint := 0;
    n bigint;
    now_ms bigint;
    p smallint;
    u bigint;
    former bigint;
BEGIN
    IF NOT has_table_privilege(caller, '{s}.timer', 'UPDATE') THEN
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = 'a role that may not update {s}.timer may not release timers';
    END IF;
    FOR p IN SELECT l.part FROM {s}.lease l ORDER BY l.part LOOP
        PERFORM 1 FROM {s}.gate g WHERE g.part = {s}.wheelwork_gate(p) FOR SHARE;
        PERFORM 1 FROM {s}.timer t WHERE t.part = p AND t.due >= base AND t.held <> 0 FOR UPDATE;
        CONTINUE WHEN NOT FOUND;
        u := {s}.wheelwork_upto(p);
        now_ms := {s}.wheelwork_clock();
        UPDATE {s}.timer t SET due = GREATEST(t.due - base, now_ms), held = 0, held_since = NULL,
                moved = GREATEST(t.due - base, now_ms)
                    <> ('x' || substr(replace(t.id::text, '-', ''), 5, 12))::bit(48)::bigint
            WHERE t.part = p AND t.due >= base AND t.due > u AND t.held <> 0;
        GET DIAGNOSTICS n = ROW_COUNT;
        released := released + n;
    END LOOP;
    SELECT m.version INTO former FROM {s}.meta m WHERE m.one = 1 FOR UPDATE;
    SELECT s.value INTO former FROM {s}.setting s WHERE s.name = 'floor_before_held';
    IF NOT FOUND THEN
        RETURN released;
    END IF;
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE NOTICE 'the floor stays: it falls in read committed alone';
        RETURN released;
    END IF;
    LOCK TABLE {s}.node IN ACCESS EXCLUSIVE MODE;
    PERFORM set_config('idle_in_transaction_session_timeout', '1s', true);
    IF EXISTS (SELECT 1 FROM {s}.node n WHERE n.until > now() AND NOT n.dead) THEN
        RAISE NOTICE 'the floor stays: nodes are alive. End them, and call this again';
        RETURN released;
    END IF;
    UPDATE {s}.node n SET dead = true WHERE NOT n.dead;
    EXECUTE 'ALTER TABLE {s}.node DROP CONSTRAINT IF EXISTS node_number';
    IF former > 3 THEN
        EXECUTE 'ALTER TABLE {s}.node ADD CONSTRAINT node_number CHECK (version >= ' || former
            || ') NOT VALID';
    END IF;
    UPDATE {s}.meta m SET version = former WHERE m.one = 1;
    DELETE FROM {s}.setting s WHERE s.name IN ('floor', 'floor_before_held');
    RETURN released;
END
$$";

/// Of step 5: arms a timer with all that it may have. All parameters are given: a function whose
/// parameters have defaults could not get more of them later.
///
/// An expiry is compared with the deadline that the timer gets, which is now if the one that is
/// given is in the past or NULL. So a timer that has expired already is refused.
///
/// Earlier programs would get an expiry and a limit wrong. A floor that may fall again is none, and
/// no transaction of a user raises it, since that would lock the table of nodes until it ends. The
/// note is read after the floor: a floor that has no note does not fall. A trace that is none is
/// left out, as everywhere.
pub(super) const SCHEDULE_WITH_AT: &str = "CREATE FUNCTION {s}.wheelwork_schedule_with_at(
    kind text, due bigint, payload bytea, key text, expires bigint, limit_ms bigint, trace text)
RETURNS uuid LANGUAGE plpgsql VOLATILE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    armed uuid;
BEGIN
    IF $5 IS NOT NULL OR $6 IS NOT NULL THEN
        IF (SELECT m.version FROM {s}.meta m WHERE m.one = 1) < 5
            OR EXISTS (SELECT 1 FROM {s}.setting s WHERE s.name = 'floor_before_held') THEN
            RAISE EXCEPTION USING ERRCODE = '55000',
                MESSAGE = 'programs may come here that know no expiry and no limit: the first timer '
                    || 'with either is a node''s, or {s}.wheelwork_close(5, ''shop'') comes first';
        END IF;
        IF $5 < LEAST(GREATEST($2, {s}.wheelwork_clock()), 281474976710655) THEN
            RAISE EXCEPTION USING ERRCODE = '22023',
                MESSAGE = 'the timer expires before it is due';
        END IF;
        IF $6 NOT BETWEEN 1 AND 281474976710655 THEN
            RAISE EXCEPTION USING ERRCODE = '22023',
                MESSAGE = 'an attempt has a limit of at least a millisecond';
        END IF;
    END IF;
    armed := {s}.wheelwork_schedule_at($1, $2, $3, $4);
    UPDATE {s}.timer t SET limit_ms = $6,
            expires = CASE WHEN $5 > 281474976710655 THEN 281474976710655 ELSE $5 END,
            trace = CASE WHEN $7 ~ '^[!-~]{1,128}$' THEN $7 END
        WHERE t.part = {s}.wheelwork_small(('x' || substr(armed::text, 1, 4))::bit(16)::int)
            AND t.id = armed
            AND t.due = ('x' || substr(replace(armed::text, '-', ''), 5, 12))::bit(48)::bigint;
    RETURN armed;
END
$$";
