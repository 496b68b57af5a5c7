//! Partitions: the functions that know how many partitions a schema has, as step 5 makes them.
//! `{s}` stands for the schema, and `{n}` for the number.
//!
//! A partition's number has 16 bits, and the tables have it with a sign. There are 256 gates
//! whatever the number of partitions: a node locks those of its partitions 20 times a second, and
//! each lock is a write.
//!
//! With 256 partitions they do what those of number 3 do. Names, parameters and types are theirs.

/// A partition's gate: partitions beside each other share one. (An id may be of a partition that
/// there is not.)
pub(super) const GATE: &str = "CREATE FUNCTION {s}.wheelwork_gate(part smallint)
RETURNS smallint LANGUAGE sql IMMUTABLE AS $$
    SELECT LEAST((part::int & 65535) * 256 / {n}, 255)::smallint
$$";

/// A number of 16 bits as the tables have it.
pub(super) const SMALL: &str = "CREATE FUNCTION {s}.wheelwork_small(part int)
RETURNS smallint LANGUAGE sql IMMUTABLE AS $$
    SELECT (CASE WHEN part > 32767 THEN part - 65536 ELSE part END)::smallint
$$";

/// A key's partition: by the first 16 bits of its MD5.
pub(super) const PART: &str = "CREATE OR REPLACE FUNCTION {s}.wheelwork_part(key text)
RETURNS smallint LANGUAGE sql IMMUTABLE AS $$
    SELECT {s}.wheelwork_small(
        (('x' || substr(md5(key), 1, 4))::bit(16)::bigint * {n} / 65536)::int)
$$";

pub(super) const ID: &str = "CREATE OR REPLACE FUNCTION {s}.wheelwork_id(part smallint, due bigint)
RETURNS uuid LANGUAGE sql AS $$
    SELECT (lpad(to_hex(part::int & 65535), 4, '0') || lpad(to_hex(due), 12, '0')
        || substr(md5(gen_random_uuid()::text), 1, 16))::uuid
$$";

pub(super) const SCHEDULE_AT: &str = "CREATE OR REPLACE FUNCTION {s}.wheelwork_schedule_at(
    kind text, due bigint, payload bytea, key text DEFAULT NULL)
RETURNS uuid LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {s}.wheelwork_arm($1, $4, w.due, $3, w.part, {s}.wheelwork_id(w.part, w.due))
    FROM (SELECT LEAST(GREATEST($2, {s}.wheelwork_clock()), 281474976710655) AS due,
        COALESCE({s}.wheelwork_part($4),
            {s}.wheelwork_small(floor(random() * {n})::int)) AS part) w
$$";

pub(super) const ARM: &str = "CREATE OR REPLACE FUNCTION {s}.wheelwork_arm(
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
    PERFORM 1 FROM {s}.gate g WHERE g.part = {s}.wheelwork_gate($5) FOR SHARE;
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

pub(super) const CANCEL: &str = "CREATE OR REPLACE FUNCTION {s}.wheelwork_cancel(timer uuid)
RETURNS boolean LANGUAGE plpgsql VOLATILE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    part int := ('x' || substr($1::text, 1, 4))::bit(16)::int;
    first bigint := ('x' || substr(replace($1::text, '-', ''), 5, 12))::bit(48)::bigint;
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

pub(super) const CANCEL_KEY: &str = "CREATE OR REPLACE FUNCTION {s}.wheelwork_cancel_key(key text)
RETURNS boolean LANGUAGE plpgsql VOLATILE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    p smallint := {s}.wheelwork_part($1);
    old record;
BEGIN
    PERFORM 1 FROM {s}.gate g WHERE g.part = {s}.wheelwork_gate(p) FOR SHARE;
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
