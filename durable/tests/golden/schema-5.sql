CREATE SCHEMA golden;
CREATE FUNCTION golden.wheelwork_arm(kind text, key text, due bigint, payload bytea, part smallint, id uuid) RETURNS uuid
    LANGUAGE plpgsql
    AS $_$
DECLARE
    old record;
BEGIN
    IF $2 IS NULL THEN
        INSERT INTO golden.timer (part, due, id, kind, key, payload, attempts, crashes, calendar,
                superseded, moved, epoch)
            VALUES ($5, $3, $6, $1, NULL, $4, 0, 0, NULL, false, false, 0);
        RETURN $6;
    END IF;
    PERFORM 1 FROM golden.gate g WHERE g.part = golden.wheelwork_gate($5) FOR SHARE;
    LOOP
        SELECT f.d, f.timer INTO old FROM golden.wheelwork_find_key($5, $2) f;
        IF old.timer IS NULL THEN
            NULL;
        ELSIF old.d > golden.wheelwork_upto($5) THEN
            DELETE FROM golden.timer t WHERE t.part = $5 AND t.due = old.d AND t.id = old.timer;
        ELSE
            UPDATE golden.timer t SET key = NULL, superseded = true
                WHERE t.part = $5 AND t.due = old.d AND t.id = old.timer;
        END IF;
        BEGIN
            INSERT INTO golden.timer (part, due, id, kind, key, payload, attempts, crashes,
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
$_$;
CREATE FUNCTION golden.wheelwork_cancel(timer uuid) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    part int := ('x' || substr($1::text, 1, 4))::bit(16)::int;
    first bigint := ('x' || substr(replace($1::text, '-', ''), 5, 12))::bit(48)::bigint;
    p smallint;
    d bigint;
BEGIN
    p := golden.wheelwork_small(part);
    PERFORM 1 FROM golden.gate g WHERE g.part = golden.wheelwork_gate(p) FOR SHARE;
    d := golden.wheelwork_find(p, first, $1);
    IF d IS NULL THEN
        RETURN false;
    END IF;
    IF d <= golden.wheelwork_upto(p) THEN
        -- A recurring timer is struck: no further run begins.
        UPDATE golden.timer t SET key = NULL, superseded = true WHERE t.part = p AND t.due = d
            AND t.id = $1 AND t.calendar IS NOT NULL AND NOT t.superseded;
        IF FOUND THEN
            RETURN true;
        END IF;
        RAISE EXCEPTION USING ERRCODE = 'WW001';
    END IF;
    DELETE FROM golden.timer t WHERE t.part = p AND t.due = d AND t.id = $1;
    RETURN true;
EXCEPTION WHEN SQLSTATE 'WW001' THEN
    RETURN false;
END
$_$;
CREATE FUNCTION golden.wheelwork_cancel_key(key text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    p smallint := golden.wheelwork_part($1);
    old record;
BEGIN
    PERFORM 1 FROM golden.gate g WHERE g.part = golden.wheelwork_gate(p) FOR SHARE;
    SELECT f.d, f.timer INTO old FROM golden.wheelwork_find_key(p, $1) f;
    IF old.timer IS NULL THEN
        RETURN false;
    END IF;
    IF old.d <= golden.wheelwork_upto(p) THEN
        UPDATE golden.timer t SET key = NULL, superseded = true WHERE t.part = p AND t.due = old.d
            AND t.id = old.timer AND t.calendar IS NOT NULL AND NOT t.superseded;
        IF FOUND THEN
            RETURN true;
        END IF;
        RAISE EXCEPTION USING ERRCODE = 'WW001';
    END IF;
    DELETE FROM golden.timer t WHERE t.part = p AND t.due = old.d AND t.id = old.timer;
    RETURN true;
EXCEPTION WHEN SQLSTATE 'WW001' THEN
    RETURN false;
END
$_$;
CREATE FUNCTION golden.wheelwork_change_rule(rule text, part text, makes boolean, rate double precision, most bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    caller name := COALESCE(NULLIF(current_setting('role'), 'none'), session_user);
    per float8 := CASE WHEN $3 THEN $4 END;
    many bigint := CASE WHEN $3 THEN $5 END;
    changed bigint;
BEGIN
    IF NOT has_table_privilege(caller, 'golden.rule', 'UPDATE') THEN
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = 'a role that may not update golden.rule may not change rules';
    END IF;
    IF $1 IS NULL OR octet_length($1) > 1025
        OR NOT (left($1, 1) = '=' OR left($1, 1) = '*' AND length($1) > 1) THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'a rule is for a kind or for the beginning of keys, of 1,024 bytes at most';
    ELSIF $3 IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'makes is NULL';
    ELSIF $2 = 'rate' AND $3 AND ($4 BETWEEN 0.000001 AND 1000000000) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'a rate is between 0.000001 and 1,000,000,000 timers in a second';
    ELSIF $2 = 'rate' AND $3 AND ($5 BETWEEN 1 AND 4294967295) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'the burst of a rate is between 1 and 4,294,967,295 timers';
    ELSIF $2 = 'calls' AND $3 AND ($5 BETWEEN 1 AND 4294967295) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'a limit is between 1 and 4,294,967,295 calls';
    END IF;
    PERFORM 1 FROM golden.setting s WHERE s.name = 'rules' FOR UPDATE;
    IF $3 THEN
        IF (SELECT m.version FROM golden.meta m WHERE m.one = 1) < 5
            OR EXISTS (SELECT 1 FROM golden.setting s WHERE s.name = 'floor_before_held') THEN
            RAISE EXCEPTION USING ERRCODE = '55000',
                MESSAGE = 'programs may come here that know no rules: the first rule is a node''s, '
                    || 'or golden.wheelwork_close(5, ''shop'') comes first';
        END IF;
        IF NOT EXISTS (SELECT 1 FROM golden.rule r WHERE r.name = $1)
            AND (SELECT count(*) FROM golden.rule r) >= 1000 THEN
            RAISE EXCEPTION USING ERRCODE = '54000',
                MESSAGE = 'there are 1,000 rules already, and no store has more';
        END IF;
        INSERT INTO golden.rule (name) VALUES ($1) ON CONFLICT (name) DO NOTHING;
    END IF;
    CASE $2
    WHEN 'paused' THEN
        UPDATE golden.rule r
            SET paused = $3, paused_since = CASE WHEN $3 THEN golden.wheelwork_clock() END
            WHERE r.name = $1 AND r.paused <> $3;
    WHEN 'rate' THEN
        UPDATE golden.rule r SET per_second = per, burst = many, full_at_us = NULL
            WHERE r.name = $1 AND (r.per_second, r.burst) IS DISTINCT FROM (per, many);
    WHEN 'calls' THEN
        UPDATE golden.rule r SET calls = many WHERE r.name = $1 AND r.calls IS DISTINCT FROM many;
    END CASE;
    GET DIAGNOSTICS changed = ROW_COUNT;
    IF changed = 0 THEN
        RETURN false;
    END IF;
    DELETE FROM golden.rule r WHERE r.name = $1 AND NOT r.paused AND r.per_second IS NULL
        AND r.calls IS NULL;
    UPDATE golden.setting s SET value = s.value + 1 WHERE s.name = 'rules';
    RETURN true;
END
$_$;
CREATE FUNCTION golden.wheelwork_clear_calls(kind text) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT golden.wheelwork_change_rule('=' || $1, 'calls', false, NULL, NULL)
$_$;
CREATE FUNCTION golden.wheelwork_clear_calls_keys(prefix text) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT golden.wheelwork_change_rule('*' || $1, 'calls', false, NULL, NULL)
$_$;
CREATE FUNCTION golden.wheelwork_clear_rate(kind text) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT golden.wheelwork_change_rule('=' || $1, 'rate', false, NULL, NULL)
$_$;
CREATE FUNCTION golden.wheelwork_clear_rate_keys(prefix text) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT golden.wheelwork_change_rule('*' || $1, 'rate', false, NULL, NULL)
$_$;
CREATE FUNCTION golden.wheelwork_clock() RETURNS bigint
    LANGUAGE sql
    AS $$
    SELECT ceil(extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;
CREATE FUNCTION golden.wheelwork_close(number bigint, program text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    caller name := COALESCE(NULLIF(current_setting('role'), 'none'), session_user);
    former bigint;
    reached bigint;
    turn int;
    older text;
BEGIN
    IF NOT has_table_privilege(caller, 'golden.timer', 'UPDATE') THEN
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = 'a role that may not update golden.timer may not raise the floor';
    END IF;
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION USING ERRCODE = '25001',
            MESSAGE = 'the floor is raised in read committed: an older snapshot lacks new nodes';
    END IF;
    SELECT m.version INTO former FROM golden.meta m WHERE m.one = 1 FOR UPDATE;
    IF former >= $1 THEN
        DELETE FROM golden.setting s WHERE s.name = 'floor_before_held' AND s.value < $1;
        RETURN NULL;
    END IF;
    SELECT s.value INTO reached FROM golden.setting s WHERE s.name = 'step';
    IF $1 > COALESCE(reached, 3) + 1 THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = format('the schema has number %s: its floor cannot be %s', reached, $1);
    END IF;
    -- First beside renewals, which need not wait for a try that is in vain.
    FOR turn IN 0..1 LOOP
        IF turn = 1 THEN
            LOCK TABLE golden.node IN ACCESS EXCLUSIVE MODE;
            PERFORM set_config('idle_in_transaction_session_timeout', '1s', true);
        END IF;
        SELECT n.name INTO older FROM golden.node n
            WHERE n.version < $1 AND n.until > now() AND NOT n.dead ORDER BY n.name LIMIT 1;
        IF FOUND THEN
            RETURN older;
        END IF;
    END LOOP;
    UPDATE golden.node n SET dead = true, version = $1 WHERE n.version < $1;
    EXECUTE 'ALTER TABLE golden.node DROP CONSTRAINT IF EXISTS node_number';
    EXECUTE 'ALTER TABLE golden.node ADD CONSTRAINT node_number CHECK (version >= ' || $1
        || ') NOT VALID';
    UPDATE golden.meta m SET version = $1 WHERE m.one = 1;
    INSERT INTO golden.setting (name, value, program) VALUES ('floor', $1, $2)
        ON CONFLICT (name) DO UPDATE SET value = $1, program = $2;
    DELETE FROM golden.setting s WHERE s.name = 'floor_before_held';
    RETURN NULL;
END
$_$;
CREATE FUNCTION golden.wheelwork_close_for_held(program text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    former bigint;
    older text;
BEGIN
    SELECT m.version INTO former FROM golden.meta m WHERE m.one = 1 FOR UPDATE;
    IF former >= 5 THEN
        RETURN NULL;
    END IF;
    -- One that was paused comes back, and nothing is wrong until then.
    SELECT n.name INTO older FROM golden.node n
        WHERE n.version < 5 AND n.until > now() - interval '1 hour' ORDER BY n.name LIMIT 1;
    IF FOUND THEN
        RETURN older;
    END IF;
    older := golden.wheelwork_close(5, $1);
    IF older IS NULL THEN
        INSERT INTO golden.setting (name, value, program)
            VALUES ('floor_before_held', former, $1);
    END IF;
    RETURN older;
END
$_$;
CREATE FUNCTION golden.wheelwork_find(p smallint, first bigint, timer uuid) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
DECLARE
    d bigint;
BEGIN
    LOOP
        SELECT t.due INTO d FROM golden.timer t
            WHERE t.part = p AND t.due = first AND t.id = timer FOR UPDATE;
        EXIT WHEN FOUND;
        SELECT t.due INTO d FROM golden.timer t WHERE t.part = p AND t.id = timer AND t.moved
            FOR UPDATE;
        EXIT WHEN FOUND;
        -- It was moved back while the other place was looked at, or is not there.
        EXIT WHEN NOT EXISTS (SELECT 1 FROM golden.timer t
            WHERE t.part = p AND t.due = first AND t.id = timer)
            AND NOT EXISTS (SELECT 1 FROM golden.timer t
                WHERE t.part = p AND t.id = timer AND t.moved);
    END LOOP;
    RETURN d;
END
$$;
CREATE FUNCTION golden.wheelwork_find_key(p smallint, name text, OUT d bigint, OUT timer uuid) RETURNS record
    LANGUAGE plpgsql
    AS $$
BEGIN
    LOOP
        SELECT t.due, t.id INTO d, timer FROM golden.timer t WHERE t.part = p AND t.key = name
            FOR UPDATE;
        EXIT WHEN FOUND;
        EXIT WHEN NOT EXISTS (SELECT 1 FROM golden.timer t WHERE t.part = p AND t.key = name);
    END LOOP;
END
$$;
CREATE FUNCTION golden.wheelwork_gate(part smallint) RETURNS smallint
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT LEAST((part::int & 65535) * 256 / 256, 255)::smallint
$$;
CREATE FUNCTION golden.wheelwork_id(part smallint, due bigint) RETURNS uuid
    LANGUAGE sql
    AS $$
    SELECT (lpad(to_hex(part::int & 65535), 4, '0') || lpad(to_hex(due), 12, '0')
        || substr(md5(gen_random_uuid()::text), 1, 16))::uuid
$$;
CREATE FUNCTION golden.wheelwork_millis(due timestamp with time zone) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT ceil(extract(epoch FROM
        LEAST(GREATEST(due, to_timestamp(0)), to_timestamp(281474976710))) * 1000)::bigint
$$;
CREATE FUNCTION golden.wheelwork_part(key text) RETURNS smallint
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT golden.wheelwork_small(
        (('x' || substr(md5(key), 1, 4))::bit(16)::bigint * 256 / 65536)::int)
$$;
CREATE FUNCTION golden.wheelwork_pause(kind text) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT golden.wheelwork_change_rule('=' || $1, 'paused', true, NULL, NULL)
$_$;
CREATE FUNCTION golden.wheelwork_pause_keys(prefix text) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT golden.wheelwork_change_rule('*' || $1, 'paused', true, NULL, NULL)
$_$;
CREATE FUNCTION golden.wheelwork_release_held() RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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
    IF NOT has_table_privilege(caller, 'golden.timer', 'UPDATE') THEN
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = 'a role that may not update golden.timer may not release timers';
    END IF;
    FOR p IN SELECT l.part FROM golden.lease l ORDER BY l.part LOOP
        PERFORM 1 FROM golden.gate g WHERE g.part = golden.wheelwork_gate(p) FOR SHARE;
        PERFORM 1 FROM golden.timer t WHERE t.part = p AND t.due >= base AND t.held <> 0 FOR UPDATE;
        CONTINUE WHEN NOT FOUND;
        u := golden.wheelwork_upto(p);
        now_ms := golden.wheelwork_clock();
        UPDATE golden.timer t SET due = GREATEST(t.due - base, now_ms), held = 0, held_since = NULL,
                moved = GREATEST(t.due - base, now_ms)
                    <> ('x' || substr(replace(t.id::text, '-', ''), 5, 12))::bit(48)::bigint
            WHERE t.part = p AND t.due >= base AND t.due > u AND t.held <> 0;
        GET DIAGNOSTICS n = ROW_COUNT;
        released := released + n;
    END LOOP;
    SELECT m.version INTO former FROM golden.meta m WHERE m.one = 1 FOR UPDATE;
    SELECT s.value INTO former FROM golden.setting s WHERE s.name = 'floor_before_held';
    IF NOT FOUND THEN
        RETURN released;
    END IF;
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE NOTICE 'the floor stays: it falls in read committed alone';
        RETURN released;
    END IF;
    LOCK TABLE golden.node IN ACCESS EXCLUSIVE MODE;
    PERFORM set_config('idle_in_transaction_session_timeout', '1s', true);
    IF EXISTS (SELECT 1 FROM golden.node n WHERE n.until > now() AND NOT n.dead) THEN
        RAISE NOTICE 'the floor stays: nodes are alive. End them, and call this again';
        RETURN released;
    END IF;
    UPDATE golden.node n SET dead = true WHERE NOT n.dead;
    EXECUTE 'ALTER TABLE golden.node DROP CONSTRAINT IF EXISTS node_number';
    IF former > 3 THEN
        EXECUTE 'ALTER TABLE golden.node ADD CONSTRAINT node_number CHECK (version >= ' || former
            || ') NOT VALID';
    END IF;
    UPDATE golden.meta m SET version = former WHERE m.one = 1;
    DELETE FROM golden.setting s WHERE s.name IN ('floor', 'floor_before_held');
    RETURN released;
END
$$;
CREATE FUNCTION golden.wheelwork_reschedule(timer uuid, due timestamp with time zone) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT golden.wheelwork_reschedule_at($1, golden.wheelwork_millis($2))
$_$;
CREATE FUNCTION golden.wheelwork_reschedule_at(timer uuid, due bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    part int := ('x' || substr($1::text, 1, 4))::bit(16)::int;
    first bigint := ('x' || substr(replace($1::text, '-', ''), 5, 12))::bit(48)::bigint;
    next bigint := LEAST(GREATEST($2, golden.wheelwork_clock()), 281474976710655);
    p smallint;
    d bigint;
BEGIN
    p := golden.wheelwork_small(part);
    PERFORM 1 FROM golden.gate g WHERE g.part = golden.wheelwork_gate(p) FOR SHARE;
    d := golden.wheelwork_find(p, first, $1);
    IF d IS NULL THEN
        RETURN false;
    END IF;
    IF d <= golden.wheelwork_upto(p) THEN
        RAISE EXCEPTION USING ERRCODE = 'WW001';
    END IF;
    UPDATE golden.timer t SET due = next, moved = next <> first, held = 0,
            held_since = NULL
        WHERE t.part = p AND t.due = d AND t.id = $1 AND NOT t.superseded;
    RETURN FOUND;
EXCEPTION WHEN SQLSTATE 'WW001' THEN
    RETURN false;
END
$_$;
CREATE FUNCTION golden.wheelwork_reschedule_key(key text, due timestamp with time zone) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT golden.wheelwork_reschedule_key_at($1, golden.wheelwork_millis($2))
$_$;
CREATE FUNCTION golden.wheelwork_reschedule_key_at(key text, due bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    p smallint := golden.wheelwork_part($1);
    next bigint := LEAST(GREATEST($2, golden.wheelwork_clock()), 281474976710655);
    old record;
BEGIN
    PERFORM 1 FROM golden.gate g WHERE g.part = golden.wheelwork_gate(p) FOR SHARE;
    SELECT f.d, f.timer INTO old FROM golden.wheelwork_find_key(p, $1) f;
    IF old.timer IS NULL THEN
        RETURN false;
    END IF;
    IF old.d <= golden.wheelwork_upto(p) THEN
        RAISE EXCEPTION USING ERRCODE = 'WW001';
    END IF;
    UPDATE golden.timer t SET due = next, moved = true, held = 0, held_since = NULL
        WHERE t.part = p AND t.due = old.d AND t.id = old.timer;
    RETURN true;
EXCEPTION WHEN SQLSTATE 'WW001' THEN
    RETURN false;
END
$_$;
CREATE FUNCTION golden.wheelwork_resume(kind text) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT golden.wheelwork_change_rule('=' || $1, 'paused', false, NULL, NULL)
$_$;
CREATE FUNCTION golden.wheelwork_resume_keys(prefix text) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT golden.wheelwork_change_rule('*' || $1, 'paused', false, NULL, NULL)
$_$;
CREATE FUNCTION golden.wheelwork_schedule(kind text, due timestamp with time zone, payload bytea, key text DEFAULT NULL::text) RETURNS uuid
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT golden.wheelwork_schedule_at($1, golden.wheelwork_millis($2), $3, $4)
$_$;
CREATE FUNCTION golden.wheelwork_schedule_at(kind text, due bigint, payload bytea, key text DEFAULT NULL::text) RETURNS uuid
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT golden.wheelwork_arm($1, $4, w.due, $3, w.part, golden.wheelwork_id(w.part, w.due))
    FROM (SELECT LEAST(GREATEST($2, golden.wheelwork_clock()), 281474976710655) AS due,
        COALESCE(golden.wheelwork_part($4),
            golden.wheelwork_small(floor(random() * 256)::int)) AS part) w
$_$;
CREATE FUNCTION golden.wheelwork_schedule_with_at(kind text, due bigint, payload bytea, key text, expires bigint, limit_ms bigint, trace text) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
    armed uuid;
BEGIN
    IF $5 IS NOT NULL OR $6 IS NOT NULL THEN
        IF (SELECT m.version FROM golden.meta m WHERE m.one = 1) < 5
            OR EXISTS (SELECT 1 FROM golden.setting s WHERE s.name = 'floor_before_held') THEN
            RAISE EXCEPTION USING ERRCODE = '55000',
                MESSAGE = 'programs may come here that know no expiry and no limit: the first timer '
                    || 'with either is a node''s, or golden.wheelwork_close(5, ''shop'') comes first';
        END IF;
        IF $5 < LEAST(GREATEST($2, golden.wheelwork_clock()), 281474976710655) THEN
            RAISE EXCEPTION USING ERRCODE = '22023',
                MESSAGE = 'the timer expires before it is due';
        END IF;
        IF $6 NOT BETWEEN 1 AND 281474976710655 THEN
            RAISE EXCEPTION USING ERRCODE = '22023',
                MESSAGE = 'an attempt has a limit of at least a millisecond';
        END IF;
    END IF;
    armed := golden.wheelwork_schedule_at($1, $2, $3, $4);
    UPDATE golden.timer t SET limit_ms = $6,
            expires = CASE WHEN $5 > 281474976710655 THEN 281474976710655 ELSE $5 END,
            trace = CASE WHEN $7 ~ '^[!-~]{1,128}$' THEN $7 END
        WHERE t.part = golden.wheelwork_small(('x' || substr(armed::text, 1, 4))::bit(16)::int)
            AND t.id = armed
            AND t.due = ('x' || substr(replace(armed::text, '-', ''), 5, 12))::bit(48)::bigint;
    RETURN armed;
END
$_$;
CREATE FUNCTION golden.wheelwork_set_calls(kind text, calls bigint) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT golden.wheelwork_change_rule('=' || $1, 'calls', true, NULL, $2)
$_$;
CREATE FUNCTION golden.wheelwork_set_calls_keys(prefix text, calls bigint) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT golden.wheelwork_change_rule('*' || $1, 'calls', true, NULL, $2)
$_$;
CREATE FUNCTION golden.wheelwork_set_rate(kind text, per_second double precision, burst bigint) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT golden.wheelwork_change_rule('=' || $1, 'rate', true, $2, $3)
$_$;
CREATE FUNCTION golden.wheelwork_set_rate_keys(prefix text, per_second double precision, burst bigint) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    SELECT golden.wheelwork_change_rule('*' || $1, 'rate', true, $2, $3)
$_$;
CREATE FUNCTION golden.wheelwork_small(part integer) RETURNS smallint
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT (CASE WHEN part > 32767 THEN part - 65536 ELSE part END)::smallint
$$;
CREATE FUNCTION golden.wheelwork_upto(p smallint) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
DECLARE
    o uuid;
    c bigint;
    u bigint;
BEGIN
    IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
        SELECT l.owner, l.claimed_upto, (SELECT w.upto FROM golden.watermark w
                WHERE w.node = l.owner ORDER BY w.gen DESC LIMIT 1)
            INTO o, c, u FROM golden.lease l WHERE l.part = p;
    ELSE
        BEGIN
            SELECT l.owner, l.claimed_upto INTO o, c FROM golden.lease l WHERE l.part = p FOR SHARE;
            SELECT w.upto INTO u FROM golden.watermark w WHERE w.node = o
                ORDER BY w.gen DESC LIMIT 1 FOR SHARE;
            RAISE EXCEPTION USING ERRCODE = 'WW002';
        EXCEPTION WHEN SQLSTATE 'WW002' THEN
            NULL;
        END;
    END IF;
    -- An owner without a watermark may have handed out anything.
    RETURN CASE WHEN o IS NULL THEN c ELSE GREATEST(c, COALESCE(u, 9223372036854775807)) END;
END
$$;
CREATE TABLE golden.dead (
    id uuid NOT NULL,
    due bigint NOT NULL,
    kind text NOT NULL,
    key text,
    payload bytea NOT NULL,
    attempts bigint NOT NULL,
    crashes bigint NOT NULL,
    calendar text,
    cause smallint NOT NULL,
    why text NOT NULL,
    since bigint NOT NULL,
    expires bigint,
    limit_ms bigint,
    trace text
);
CREATE TABLE golden.done (
    part smallint NOT NULL,
    ended bigint NOT NULL,
    id uuid NOT NULL,
    due bigint NOT NULL,
    began bigint,
    took_us bigint,
    kind text NOT NULL,
    key text,
    attempts bigint NOT NULL,
    crashes bigint NOT NULL,
    node text NOT NULL,
    ending smallint NOT NULL
);
CREATE TABLE golden.gate (
    part smallint NOT NULL
);
CREATE TABLE golden.lease (
    part smallint NOT NULL,
    owner uuid,
    epoch bigint NOT NULL,
    claimed_upto bigint NOT NULL,
    raise_upto bigint NOT NULL,
    clean boolean NOT NULL,
    wants text[]
);
CREATE TABLE golden.meta (
    one smallint NOT NULL,
    version bigint NOT NULL
);
CREATE TABLE golden.node (
    node uuid NOT NULL,
    name text NOT NULL,
    until timestamp with time zone NOT NULL,
    slow boolean NOT NULL,
    dead boolean NOT NULL,
    version bigint DEFAULT 3 NOT NULL,
    program text DEFAULT ''::text NOT NULL,
    kinds text[],
    looks boolean DEFAULT false NOT NULL
)
WITH (fillfactor='20');
CREATE TABLE golden.permit (
    name text NOT NULL COLLATE pg_catalog."C",
    node uuid NOT NULL,
    calls bigint NOT NULL,
    wants bigint NOT NULL,
    since_us bigint NOT NULL
)
WITH (fillfactor='20');
CREATE TABLE golden.rule (
    name text NOT NULL COLLATE pg_catalog."C",
    paused boolean DEFAULT false NOT NULL,
    paused_since bigint,
    per_second double precision,
    burst bigint,
    full_at_us bigint,
    calls bigint
)
WITH (fillfactor='20');
CREATE TABLE golden.seq (
    node uuid NOT NULL,
    seq bigint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');
CREATE TABLE golden.setting (
    name text NOT NULL COLLATE pg_catalog."C",
    value bigint NOT NULL,
    program text DEFAULT ''::text NOT NULL
);
CREATE TABLE golden.timer (
    part smallint NOT NULL,
    due bigint NOT NULL,
    id uuid NOT NULL,
    kind text NOT NULL,
    key text,
    payload bytea NOT NULL,
    attempts bigint NOT NULL,
    crashes bigint NOT NULL,
    calendar text,
    superseded boolean NOT NULL,
    moved boolean NOT NULL,
    epoch bigint NOT NULL,
    held smallint DEFAULT 0 NOT NULL,
    held_since bigint,
    expires bigint,
    limit_ms bigint,
    trace text
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.2', autovacuum_vacuum_cost_delay='0');
CREATE TABLE golden.watermark (
    node uuid NOT NULL,
    gen bigint NOT NULL,
    upto bigint NOT NULL
)
WITH (fillfactor='20', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');
INSERT INTO golden.dead VALUES ('000b01a2-2381-01d1-4873-a44900404cd4', 1795891986897, 'mail', NULL, '\x6275726965642030', 3, 0, NULL, 0, '', 1795891986892, NULL, NULL, NULL);
INSERT INTO golden.dead VALUES ('000c01a2-2381-01d2-4873-a44900404cd5', 1795891986898, 'mail', NULL, '\x6275726965642031', 3, 0, NULL, 1, 'no number', 1795891986892, NULL, NULL, NULL);
INSERT INTO golden.dead VALUES ('000d01a2-2381-01d3-4873-a44900404cd6', 1795891986899, 'mail', NULL, '\x6275726965642032', 3, 0, NULL, 2, 'no route', 1795891986892, NULL, NULL, NULL);
INSERT INTO golden.dead VALUES ('000e01a2-2381-01d4-4873-a44900404cd7', 1795891986900, 'mail', NULL, '\x6275726965642033', 3, 0, NULL, 3, '', 1795891986892, NULL, NULL, NULL);
INSERT INTO golden.gate VALUES (0);
INSERT INTO golden.gate VALUES (1);
INSERT INTO golden.gate VALUES (2);
INSERT INTO golden.gate VALUES (3);
INSERT INTO golden.gate VALUES (4);
INSERT INTO golden.gate VALUES (5);
INSERT INTO golden.gate VALUES (6);
INSERT INTO golden.gate VALUES (7);
INSERT INTO golden.gate VALUES (8);
INSERT INTO golden.gate VALUES (9);
INSERT INTO golden.gate VALUES (10);
INSERT INTO golden.gate VALUES (11);
INSERT INTO golden.gate VALUES (12);
INSERT INTO golden.gate VALUES (13);
INSERT INTO golden.gate VALUES (14);
INSERT INTO golden.gate VALUES (15);
INSERT INTO golden.gate VALUES (16);
INSERT INTO golden.gate VALUES (17);
INSERT INTO golden.gate VALUES (18);
INSERT INTO golden.gate VALUES (19);
INSERT INTO golden.gate VALUES (20);
INSERT INTO golden.gate VALUES (21);
INSERT INTO golden.gate VALUES (22);
INSERT INTO golden.gate VALUES (23);
INSERT INTO golden.gate VALUES (24);
INSERT INTO golden.gate VALUES (25);
INSERT INTO golden.gate VALUES (26);
INSERT INTO golden.gate VALUES (27);
INSERT INTO golden.gate VALUES (28);
INSERT INTO golden.gate VALUES (29);
INSERT INTO golden.gate VALUES (30);
INSERT INTO golden.gate VALUES (31);
INSERT INTO golden.gate VALUES (32);
INSERT INTO golden.gate VALUES (33);
INSERT INTO golden.gate VALUES (34);
INSERT INTO golden.gate VALUES (35);
INSERT INTO golden.gate VALUES (36);
INSERT INTO golden.gate VALUES (37);
INSERT INTO golden.gate VALUES (38);
INSERT INTO golden.gate VALUES (39);
INSERT INTO golden.gate VALUES (40);
INSERT INTO golden.gate VALUES (41);
INSERT INTO golden.gate VALUES (42);
INSERT INTO golden.gate VALUES (43);
INSERT INTO golden.gate VALUES (44);
INSERT INTO golden.gate VALUES (45);
INSERT INTO golden.gate VALUES (46);
INSERT INTO golden.gate VALUES (47);
INSERT INTO golden.gate VALUES (48);
INSERT INTO golden.gate VALUES (49);
INSERT INTO golden.gate VALUES (50);
INSERT INTO golden.gate VALUES (51);
INSERT INTO golden.gate VALUES (52);
INSERT INTO golden.gate VALUES (53);
INSERT INTO golden.gate VALUES (54);
INSERT INTO golden.gate VALUES (55);
INSERT INTO golden.gate VALUES (56);
INSERT INTO golden.gate VALUES (57);
INSERT INTO golden.gate VALUES (58);
INSERT INTO golden.gate VALUES (59);
INSERT INTO golden.gate VALUES (60);
INSERT INTO golden.gate VALUES (61);
INSERT INTO golden.gate VALUES (62);
INSERT INTO golden.gate VALUES (63);
INSERT INTO golden.gate VALUES (64);
INSERT INTO golden.gate VALUES (65);
INSERT INTO golden.gate VALUES (66);
INSERT INTO golden.gate VALUES (67);
INSERT INTO golden.gate VALUES (68);
INSERT INTO golden.gate VALUES (69);
INSERT INTO golden.gate VALUES (70);
INSERT INTO golden.gate VALUES (71);
INSERT INTO golden.gate VALUES (72);
INSERT INTO golden.gate VALUES (73);
INSERT INTO golden.gate VALUES (74);
INSERT INTO golden.gate VALUES (75);
INSERT INTO golden.gate VALUES (76);
INSERT INTO golden.gate VALUES (77);
INSERT INTO golden.gate VALUES (78);
INSERT INTO golden.gate VALUES (79);
INSERT INTO golden.gate VALUES (80);
INSERT INTO golden.gate VALUES (81);
INSERT INTO golden.gate VALUES (82);
INSERT INTO golden.gate VALUES (83);
INSERT INTO golden.gate VALUES (84);
INSERT INTO golden.gate VALUES (85);
INSERT INTO golden.gate VALUES (86);
INSERT INTO golden.gate VALUES (87);
INSERT INTO golden.gate VALUES (88);
INSERT INTO golden.gate VALUES (89);
INSERT INTO golden.gate VALUES (90);
INSERT INTO golden.gate VALUES (91);
INSERT INTO golden.gate VALUES (92);
INSERT INTO golden.gate VALUES (93);
INSERT INTO golden.gate VALUES (94);
INSERT INTO golden.gate VALUES (95);
INSERT INTO golden.gate VALUES (96);
INSERT INTO golden.gate VALUES (97);
INSERT INTO golden.gate VALUES (98);
INSERT INTO golden.gate VALUES (99);
INSERT INTO golden.gate VALUES (100);
INSERT INTO golden.gate VALUES (101);
INSERT INTO golden.gate VALUES (102);
INSERT INTO golden.gate VALUES (103);
INSERT INTO golden.gate VALUES (104);
INSERT INTO golden.gate VALUES (105);
INSERT INTO golden.gate VALUES (106);
INSERT INTO golden.gate VALUES (107);
INSERT INTO golden.gate VALUES (108);
INSERT INTO golden.gate VALUES (109);
INSERT INTO golden.gate VALUES (110);
INSERT INTO golden.gate VALUES (111);
INSERT INTO golden.gate VALUES (112);
INSERT INTO golden.gate VALUES (113);
INSERT INTO golden.gate VALUES (114);
INSERT INTO golden.gate VALUES (115);
INSERT INTO golden.gate VALUES (116);
INSERT INTO golden.gate VALUES (117);
INSERT INTO golden.gate VALUES (118);
INSERT INTO golden.gate VALUES (119);
INSERT INTO golden.gate VALUES (120);
INSERT INTO golden.gate VALUES (121);
INSERT INTO golden.gate VALUES (122);
INSERT INTO golden.gate VALUES (123);
INSERT INTO golden.gate VALUES (124);
INSERT INTO golden.gate VALUES (125);
INSERT INTO golden.gate VALUES (126);
INSERT INTO golden.gate VALUES (127);
INSERT INTO golden.gate VALUES (128);
INSERT INTO golden.gate VALUES (129);
INSERT INTO golden.gate VALUES (130);
INSERT INTO golden.gate VALUES (131);
INSERT INTO golden.gate VALUES (132);
INSERT INTO golden.gate VALUES (133);
INSERT INTO golden.gate VALUES (134);
INSERT INTO golden.gate VALUES (135);
INSERT INTO golden.gate VALUES (136);
INSERT INTO golden.gate VALUES (137);
INSERT INTO golden.gate VALUES (138);
INSERT INTO golden.gate VALUES (139);
INSERT INTO golden.gate VALUES (140);
INSERT INTO golden.gate VALUES (141);
INSERT INTO golden.gate VALUES (142);
INSERT INTO golden.gate VALUES (143);
INSERT INTO golden.gate VALUES (144);
INSERT INTO golden.gate VALUES (145);
INSERT INTO golden.gate VALUES (146);
INSERT INTO golden.gate VALUES (147);
INSERT INTO golden.gate VALUES (148);
INSERT INTO golden.gate VALUES (149);
INSERT INTO golden.gate VALUES (150);
INSERT INTO golden.gate VALUES (151);
INSERT INTO golden.gate VALUES (152);
INSERT INTO golden.gate VALUES (153);
INSERT INTO golden.gate VALUES (154);
INSERT INTO golden.gate VALUES (155);
INSERT INTO golden.gate VALUES (156);
INSERT INTO golden.gate VALUES (157);
INSERT INTO golden.gate VALUES (158);
INSERT INTO golden.gate VALUES (159);
INSERT INTO golden.gate VALUES (160);
INSERT INTO golden.gate VALUES (161);
INSERT INTO golden.gate VALUES (162);
INSERT INTO golden.gate VALUES (163);
INSERT INTO golden.gate VALUES (164);
INSERT INTO golden.gate VALUES (165);
INSERT INTO golden.gate VALUES (166);
INSERT INTO golden.gate VALUES (167);
INSERT INTO golden.gate VALUES (168);
INSERT INTO golden.gate VALUES (169);
INSERT INTO golden.gate VALUES (170);
INSERT INTO golden.gate VALUES (171);
INSERT INTO golden.gate VALUES (172);
INSERT INTO golden.gate VALUES (173);
INSERT INTO golden.gate VALUES (174);
INSERT INTO golden.gate VALUES (175);
INSERT INTO golden.gate VALUES (176);
INSERT INTO golden.gate VALUES (177);
INSERT INTO golden.gate VALUES (178);
INSERT INTO golden.gate VALUES (179);
INSERT INTO golden.gate VALUES (180);
INSERT INTO golden.gate VALUES (181);
INSERT INTO golden.gate VALUES (182);
INSERT INTO golden.gate VALUES (183);
INSERT INTO golden.gate VALUES (184);
INSERT INTO golden.gate VALUES (185);
INSERT INTO golden.gate VALUES (186);
INSERT INTO golden.gate VALUES (187);
INSERT INTO golden.gate VALUES (188);
INSERT INTO golden.gate VALUES (189);
INSERT INTO golden.gate VALUES (190);
INSERT INTO golden.gate VALUES (191);
INSERT INTO golden.gate VALUES (192);
INSERT INTO golden.gate VALUES (193);
INSERT INTO golden.gate VALUES (194);
INSERT INTO golden.gate VALUES (195);
INSERT INTO golden.gate VALUES (196);
INSERT INTO golden.gate VALUES (197);
INSERT INTO golden.gate VALUES (198);
INSERT INTO golden.gate VALUES (199);
INSERT INTO golden.gate VALUES (200);
INSERT INTO golden.gate VALUES (201);
INSERT INTO golden.gate VALUES (202);
INSERT INTO golden.gate VALUES (203);
INSERT INTO golden.gate VALUES (204);
INSERT INTO golden.gate VALUES (205);
INSERT INTO golden.gate VALUES (206);
INSERT INTO golden.gate VALUES (207);
INSERT INTO golden.gate VALUES (208);
INSERT INTO golden.gate VALUES (209);
INSERT INTO golden.gate VALUES (210);
INSERT INTO golden.gate VALUES (211);
INSERT INTO golden.gate VALUES (212);
INSERT INTO golden.gate VALUES (213);
INSERT INTO golden.gate VALUES (214);
INSERT INTO golden.gate VALUES (215);
INSERT INTO golden.gate VALUES (216);
INSERT INTO golden.gate VALUES (217);
INSERT INTO golden.gate VALUES (218);
INSERT INTO golden.gate VALUES (219);
INSERT INTO golden.gate VALUES (220);
INSERT INTO golden.gate VALUES (221);
INSERT INTO golden.gate VALUES (222);
INSERT INTO golden.gate VALUES (223);
INSERT INTO golden.gate VALUES (224);
INSERT INTO golden.gate VALUES (225);
INSERT INTO golden.gate VALUES (226);
INSERT INTO golden.gate VALUES (227);
INSERT INTO golden.gate VALUES (228);
INSERT INTO golden.gate VALUES (229);
INSERT INTO golden.gate VALUES (230);
INSERT INTO golden.gate VALUES (231);
INSERT INTO golden.gate VALUES (232);
INSERT INTO golden.gate VALUES (233);
INSERT INTO golden.gate VALUES (234);
INSERT INTO golden.gate VALUES (235);
INSERT INTO golden.gate VALUES (236);
INSERT INTO golden.gate VALUES (237);
INSERT INTO golden.gate VALUES (238);
INSERT INTO golden.gate VALUES (239);
INSERT INTO golden.gate VALUES (240);
INSERT INTO golden.gate VALUES (241);
INSERT INTO golden.gate VALUES (242);
INSERT INTO golden.gate VALUES (243);
INSERT INTO golden.gate VALUES (244);
INSERT INTO golden.gate VALUES (245);
INSERT INTO golden.gate VALUES (246);
INSERT INTO golden.gate VALUES (247);
INSERT INTO golden.gate VALUES (248);
INSERT INTO golden.gate VALUES (249);
INSERT INTO golden.gate VALUES (250);
INSERT INTO golden.gate VALUES (251);
INSERT INTO golden.gate VALUES (252);
INSERT INTO golden.gate VALUES (253);
INSERT INTO golden.gate VALUES (254);
INSERT INTO golden.gate VALUES (255);
INSERT INTO golden.lease VALUES (0, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (1, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (2, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (3, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (4, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (5, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (6, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (7, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (8, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (9, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (10, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (11, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (12, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (13, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (14, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (15, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (16, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (17, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (18, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (19, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (20, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (21, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (22, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (23, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (24, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (25, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (26, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (27, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (28, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (29, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (30, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (31, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (32, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (33, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (34, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (35, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (36, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (37, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (38, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (39, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (40, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (41, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (42, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (43, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (44, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (45, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (46, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (47, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (48, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (49, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (50, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (51, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (52, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (53, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (54, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (55, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (56, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (57, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (58, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (59, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (60, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (61, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (62, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (63, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (64, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (65, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (66, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (67, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (68, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (69, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (70, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (71, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (72, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (73, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (74, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (75, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (76, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (77, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (78, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (79, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (80, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (81, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (82, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (83, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (84, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (85, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (86, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (87, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (88, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (89, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (90, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (91, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (92, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (93, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (94, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (95, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (96, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (97, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (98, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (99, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (100, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (101, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (102, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (103, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (104, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (105, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (106, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (107, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (108, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (109, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (110, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (111, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (112, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (113, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (114, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (115, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (116, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (117, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (118, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (119, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (120, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (121, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (122, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (123, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (124, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (125, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (126, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (127, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (128, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (129, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (130, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (131, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (132, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (133, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (134, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (135, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (136, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (137, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (138, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (139, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (140, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (141, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (142, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (143, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (144, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (145, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (146, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (147, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (148, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (149, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (150, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (151, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (152, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (153, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (154, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (155, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (156, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (157, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (158, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (159, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (160, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (161, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (162, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (163, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (164, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (165, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (166, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (167, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (168, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (169, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (170, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (171, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (172, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (173, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (174, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (175, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (176, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (177, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (178, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (179, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (180, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (181, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (182, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (183, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (184, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (185, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (186, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (187, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (188, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (189, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (190, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (191, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (192, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (193, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (194, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (195, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (196, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (197, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (198, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (199, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (200, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (201, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (202, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (203, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (204, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (205, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (206, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (207, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (208, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (209, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (210, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (211, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (212, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (213, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (214, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (215, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (216, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (217, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (218, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (219, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (220, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (221, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (222, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (223, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (224, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (225, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (226, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (227, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (228, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (229, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (230, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (231, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (232, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (233, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (234, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (235, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (236, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (237, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (238, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (239, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (240, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (241, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (242, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (243, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (244, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (245, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (246, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (247, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (248, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (249, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (250, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (251, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (252, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (253, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (254, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.lease VALUES (255, 'cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 1, -1, -1, false, NULL);
INSERT INTO golden.meta VALUES (1, 5);
INSERT INTO golden.node VALUES ('cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 'dies', '2026-11-28 19:53:06.881491+00', false, false, 5, 'wheelwork-durable 0.1.0', NULL, false);
INSERT INTO golden.rule VALUES ('=paused', true, 1795891986892, NULL, NULL, NULL, NULL);
INSERT INTO golden.rule VALUES ('*key', false, NULL, 2.5, 4, NULL, 4);
INSERT INTO golden.seq VALUES ('cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 39);
INSERT INTO golden.setting VALUES ('partitions', 256, '');
INSERT INTO golden.setting VALUES ('step', 5, 'wheelwork-durable 0.1.0');
INSERT INTO golden.setting VALUES ('floor', 5, 'wheelwork-durable 0.1.0');
INSERT INTO golden.setting VALUES ('rules', 3, '');
INSERT INTO golden.timer VALUES (1, 4102444800000, '000103bb-2cc3-d800-4873-a44900404cc3', 'mail', NULL, '\x77616974732030', 0, 0, NULL, false, false, 1, 0, NULL, NULL, NULL, NULL);
INSERT INTO golden.timer VALUES (14, 4102444800000, '000e03bb-2cc3-d800-4873-a44900404cc4', 'mail', 'key 0', '\x6861732061206b65792030', 0, 0, NULL, false, false, 1, 0, NULL, NULL, NULL, NULL);
INSERT INTO golden.timer VALUES (2, 4102444801000, '000203bb-2cc3-d800-4873-a44900404cc5', 'mail', NULL, '\x6d6f7665642030', 0, 0, NULL, false, true, 1, 0, NULL, NULL, NULL, NULL);
INSERT INTO golden.timer VALUES (32, 4102444800000, '002003bb-2cc3-d800-4873-a44900404cc6', 'mail', 'calendar 0', '\x7265637572732030', 0, 0, '0 0 * * * Europe/Berlin', false, false, 1, 0, NULL, NULL, NULL, NULL);
INSERT INTO golden.timer VALUES (3, 4102444800001, '000303bb-2cc3-d801-4873-a44900404cc7', 'mail', NULL, '\x77616974732031', 0, 0, NULL, false, false, 1, 0, NULL, NULL, NULL, NULL);
INSERT INTO golden.timer VALUES (31, 4102444800001, '001f03bb-2cc3-d801-4873-a44900404cc8', 'mail', 'key 1', '\x6861732061206b65792031', 0, 0, NULL, false, false, 1, 0, NULL, NULL, NULL, NULL);
INSERT INTO golden.timer VALUES (4, 4102444801001, '000403bb-2cc3-d801-4873-a44900404cc9', 'mail', NULL, '\x6d6f7665642031', 0, 0, NULL, false, true, 1, 0, NULL, NULL, NULL, NULL);
INSERT INTO golden.timer VALUES (122, 4102444800001, '007a03bb-2cc3-d801-4873-a44900404cca', 'mail', 'calendar 1', '\x7265637572732031', 0, 0, '0 0 * * * Europe/Berlin', false, false, 1, 0, NULL, NULL, NULL, NULL);
INSERT INTO golden.timer VALUES (5, 4102444800002, '000503bb-2cc3-d802-4873-a44900404ccb', 'mail', NULL, '\x77616974732032', 0, 0, NULL, false, false, 1, 0, NULL, NULL, NULL, NULL);
INSERT INTO golden.timer VALUES (8, 4102444800002, '000803bb-2cc3-d802-4873-a44900404ccc', 'mail', 'key 2', '\x6861732061206b65792032', 0, 0, NULL, false, false, 1, 0, NULL, NULL, NULL, NULL);
INSERT INTO golden.timer VALUES (6, 4102444801002, '000603bb-2cc3-d802-4873-a44900404ccd', 'mail', NULL, '\x6d6f7665642032', 0, 0, NULL, false, true, 1, 0, NULL, NULL, NULL, NULL);
INSERT INTO golden.timer VALUES (210, 4102444800002, '00d203bb-2cc3-d802-4873-a44900404cce', 'mail', 'calendar 2', '\x7265637572732032', 0, 0, '0 0 * * * Europe/Berlin', false, false, 1, 0, NULL, NULL, NULL, NULL);
INSERT INTO golden.timer VALUES (7, 1795891986892, '000701a2-2381-01cc-4873-a44900404ccf', 'mail', NULL, '\x68616e646564206f75742030', 0, 0, NULL, false, false, 1, 0, NULL, NULL, NULL, NULL);
INSERT INTO golden.timer VALUES (8, 1795891986893, '000801a2-2381-01cd-4873-a44900404cd0', 'mail', NULL, '\x68616e646564206f75742031', 0, 0, NULL, false, false, 1, 0, NULL, NULL, NULL, NULL);
INSERT INTO golden.timer VALUES (186, 1795891986895, '00ba01a2-2381-01cf-4873-a44900404cd2', 'mail', NULL, '\x73757065727365646564', 0, 0, NULL, true, false, 1, 0, NULL, NULL, NULL, NULL);
INSERT INTO golden.timer VALUES (186, 4102444800000, '00ba03bb-2cc3-d800-4873-a44900404cd8', 'mail', 'taken', '\x6861732073757065727365646564206974', 0, 0, NULL, false, false, 1, 0, NULL, NULL, NULL, NULL);
INSERT INTO golden.timer VALUES (9, 1795891986894, '000901a2-2381-01ce-4873-a44900404cd1', 'mail', NULL, '\x68616e646564206f75742032', 0, 1, NULL, false, false, 1, 0, NULL, NULL, NULL, NULL);
INSERT INTO golden.timer VALUES (10, 4102444800000, '000a01a2-2381-01d0-4873-a44900404cd3', 'mail', NULL, '\x747269656420616761696e', 2, 1, NULL, false, true, 1, 0, NULL, NULL, NULL, NULL);
INSERT INTO golden.timer VALUES (15, 144839933155328, '000f03bb-2cc3-d800-4873-a44900404cd9', 'mail', NULL, '\x68656c642030', 0, 0, NULL, false, true, 1, 1, 1795891986892, NULL, NULL, NULL);
INSERT INTO golden.timer VALUES (16, 144839933155328, '001003bb-2cc3-d800-4873-a44900404cda', 'mail', NULL, '\x68656c642031', 0, 0, NULL, false, true, 1, 2, 1795891986892, NULL, NULL, NULL);
INSERT INTO golden.timer VALUES (17, 4102444800000, '001103bb-2cc3-d800-4873-a44900404cdb', 'mail', NULL, '\x65787069726573', 0, 0, NULL, false, false, 1, 0, NULL, 4102444800007, 250, '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01');
INSERT INTO golden.watermark VALUES ('cbe9093b-f777-1ec9-d164-a7ddec28c6bb', 0, 1795891987892);
ALTER TABLE ONLY golden.dead
    ADD CONSTRAINT dead_pkey PRIMARY KEY (id);
ALTER TABLE ONLY golden.done
    ADD CONSTRAINT done_pkey PRIMARY KEY (part, ended, id, due);
ALTER TABLE ONLY golden.gate
    ADD CONSTRAINT gate_pkey PRIMARY KEY (part);
ALTER TABLE ONLY golden.lease
    ADD CONSTRAINT lease_pkey PRIMARY KEY (part);
ALTER TABLE ONLY golden.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (one);
ALTER TABLE golden.node
    ADD CONSTRAINT node_number CHECK ((version >= 5)) NOT VALID;
ALTER TABLE ONLY golden.node
    ADD CONSTRAINT node_pkey PRIMARY KEY (node);
ALTER TABLE ONLY golden.permit
    ADD CONSTRAINT permit_pkey PRIMARY KEY (name, node);
ALTER TABLE ONLY golden.rule
    ADD CONSTRAINT rule_pkey PRIMARY KEY (name);
ALTER TABLE ONLY golden.seq
    ADD CONSTRAINT seq_pkey PRIMARY KEY (node, seq);
ALTER TABLE ONLY golden.setting
    ADD CONSTRAINT setting_pkey PRIMARY KEY (name);
ALTER TABLE ONLY golden.timer
    ADD CONSTRAINT timer_pkey PRIMARY KEY (part, due, id);
ALTER TABLE ONLY golden.watermark
    ADD CONSTRAINT watermark_pkey PRIMARY KEY (node, gen);
CREATE UNIQUE INDEX timer_key ON golden.timer USING btree (part, key) WHERE (key IS NOT NULL);
CREATE INDEX timer_moved ON golden.timer USING btree (part, id) WHERE moved;
