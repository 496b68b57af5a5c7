//! Rules: the functions that pause and resume timers, as step 5 makes them. `{s}` stands for the
//! schema.
//!
//! Each change of a rule locks the number of all rules and raises it, as nodes do
//! (`statements/rules.rs`).

/// A rule by its name in `kind`: its timers are paused, or no more. Whether that is new.
///
/// Earlier programs know no rules. So the floor has to be that of number 5, and not one that may
/// fall again. No transaction of a user raises it, since that would lock the table of nodes until
/// it ends.
pub(super) const PAUSE_RULE: &str =
    "CREATE FUNCTION {s}.wheelwork_pause_rule(rule text, pauses boolean)
RETURNS boolean LANGUAGE plpgsql VOLATILE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    changed bigint;
BEGIN
    IF $1 IS NULL OR $2 IS NULL OR octet_length($1) > 1025
        OR NOT (left($1, 1) = '=' OR left($1, 1) = '*' AND length($1) > 1) THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'a rule is for a kind or for the beginning of keys, of 1,024 bytes at most';
    END IF;
    PERFORM 1 FROM {s}.setting s WHERE s.name = 'kinds' FOR UPDATE;
    IF $2 THEN
        IF (SELECT m.version FROM {s}.meta m WHERE m.one = 1) < 5
            OR EXISTS (SELECT 1 FROM {s}.setting s WHERE s.name = 'floor_before_held') THEN
            RAISE EXCEPTION USING ERRCODE = '55000',
                MESSAGE = 'programs may come here that know no rules: the first rule is a node''s, '
                    || 'or {s}.wheelwork_close(5, ''shop'') comes first';
        END IF;
        IF NOT EXISTS (SELECT 1 FROM {s}.kind k WHERE k.name = $1)
            AND (SELECT count(*) FROM {s}.kind k) >= 1000 THEN
            RAISE EXCEPTION USING ERRCODE = '54000',
                MESSAGE = 'there are 1,000 rules already, and no store has more';
        END IF;
        INSERT INTO {s}.kind AS k (name, paused, since) VALUES ($1, true, {s}.wheelwork_clock())
            ON CONFLICT (name) DO UPDATE SET paused = true, since = excluded.since
                WHERE NOT k.paused;
        GET DIAGNOSTICS changed = ROW_COUNT;
    ELSE
        UPDATE {s}.kind k SET paused = false, since = NULL WHERE k.name = $1 AND k.paused;
        GET DIAGNOSTICS changed = ROW_COUNT;
        DELETE FROM {s}.kind k WHERE k.name = $1 AND NOT k.paused AND k.per_second IS NULL
            AND k.calls IS NULL;
    END IF;
    IF changed > 0 THEN
        UPDATE {s}.setting s SET value = s.value + 1 WHERE s.name = 'kinds';
    END IF;
    RETURN changed > 0;
END
$$";

pub(super) const PAUSE: &str = "CREATE FUNCTION {s}.wheelwork_pause(kind text)
RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {s}.wheelwork_pause_rule('=' || $1, true)
$$";

pub(super) const RESUME: &str = "CREATE FUNCTION {s}.wheelwork_resume(kind text)
RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {s}.wheelwork_pause_rule('=' || $1, false)
$$";

pub(super) const PAUSE_KEYS: &str = "CREATE FUNCTION {s}.wheelwork_pause_keys(prefix text)
RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {s}.wheelwork_pause_rule('*' || $1, true)
$$";

pub(super) const RESUME_KEYS: &str = "CREATE FUNCTION {s}.wheelwork_resume_keys(prefix text)
RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {s}.wheelwork_pause_rule('*' || $1, false)
$$";
