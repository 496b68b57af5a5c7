//! Rules: the functions that pause and resume timers, and that set their rates and limits of calls,
//! as step 5 makes them. `{s}` stands for the schema.
//!
//! Each change of a rule locks the number of all rules and raises it, as nodes do
//! (`statements/rules.rs`).

/// Changes a part of a rule. Whether that has made a difference.
/// `makes`: there is to be such a part. If not, there is to be none, and the rule goes with its
/// last part. `most`: the burst of a rate, or the number of calls.
///
/// Earlier programs know no rules. So the floor has to be that of number 5, and not one that may
/// fall again. No transaction of a user raises it, since that would lock the table of nodes until
/// it ends. What changes nothing locks no rule that is there, so no grant waits for it.
///
/// A rule holds for the whole fleet, so a role needs the right to update rules. It is asked for
/// here, as the functions run with the rights of their owner.
pub(super) const CHANGE_RULE: &str = "CREATE FUNCTION {s}.wheelwork_change_rule(
    rule text, part text, makes boolean, rate float8, most bigint)
RETURNS boolean LANGUAGE plpgsql VOLATILE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    caller name := COALESCE(NULLIF(current_setting('role'), 'none'), session_user);
    per float8 := CASE WHEN $3 THEN $4 END;
    many bigint := CASE WHEN $3 THEN $5 END;
    changed bigint;
BEGIN
    IF NOT has_table_privilege(caller, '{s}.rule', 'UPDATE') THEN
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = 'a role that may not update {s}.rule may not change rules';
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
    PERFORM 1 FROM {s}.setting s WHERE s.name = 'rules' FOR UPDATE;
    IF $3 THEN
        IF (SELECT m.version FROM {s}.meta m WHERE m.one = 1) < 5
            OR EXISTS (SELECT 1 FROM {s}.setting s WHERE s.name = 'floor_before_held') THEN
            RAISE EXCEPTION USING ERRCODE = '55000',
                MESSAGE = 'programs may come here that know no rules: the first rule is a node''s, '
                    || 'or {s}.wheelwork_close(5, ''shop'') comes first';
        END IF;
        IF NOT EXISTS (SELECT 1 FROM {s}.rule r WHERE r.name = $1)
            AND (SELECT count(*) FROM {s}.rule r) >= 1000 THEN
            RAISE EXCEPTION USING ERRCODE = '54000',
                MESSAGE = 'there are 1,000 rules already, and no store has more';
        END IF;
        INSERT INTO {s}.rule (name) VALUES ($1) ON CONFLICT (name) DO NOTHING;
    END IF;
    CASE $2
    WHEN 'paused' THEN
        UPDATE {s}.rule r
            SET paused = $3, paused_since = CASE WHEN $3 THEN {s}.wheelwork_clock() END
            WHERE r.name = $1 AND r.paused <> $3;
    WHEN 'rate' THEN
        UPDATE {s}.rule r SET per_second = per, burst = many, full_at_us = NULL
            WHERE r.name = $1 AND (r.per_second, r.burst) IS DISTINCT FROM (per, many);
    WHEN 'calls' THEN
        UPDATE {s}.rule r SET calls = many WHERE r.name = $1 AND r.calls IS DISTINCT FROM many;
    END CASE;
    GET DIAGNOSTICS changed = ROW_COUNT;
    IF changed = 0 THEN
        RETURN false;
    END IF;
    DELETE FROM {s}.rule r WHERE r.name = $1 AND NOT r.paused AND r.per_second IS NULL
        AND r.calls IS NULL;
    UPDATE {s}.setting s SET value = s.value + 1 WHERE s.name = 'rules';
    RETURN true;
END
$$";

/// The functions that programs call: for a kind, and for the beginning of keys.
pub(super) const PAUSE: &str = "CREATE FUNCTION {s}.wheelwork_pause(kind text)
RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {s}.wheelwork_change_rule('=' || $1, 'paused', true, NULL, NULL)
$$";

pub(super) const RESUME: &str = "CREATE FUNCTION {s}.wheelwork_resume(kind text)
RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {s}.wheelwork_change_rule('=' || $1, 'paused', false, NULL, NULL)
$$";

pub(super) const PAUSE_KEYS: &str = "CREATE FUNCTION {s}.wheelwork_pause_keys(prefix text)
RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {s}.wheelwork_change_rule('*' || $1, 'paused', true, NULL, NULL)
$$";

pub(super) const RESUME_KEYS: &str = "CREATE FUNCTION {s}.wheelwork_resume_keys(prefix text)
RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {s}.wheelwork_change_rule('*' || $1, 'paused', false, NULL, NULL)
$$";

pub(super) const SET_RATE: &str = "CREATE FUNCTION {s}.wheelwork_set_rate(
    kind text, per_second float8, burst bigint)
RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {s}.wheelwork_change_rule('=' || $1, 'rate', true, $2, $3)
$$";

pub(super) const CLEAR_RATE: &str = "CREATE FUNCTION {s}.wheelwork_clear_rate(kind text)
RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {s}.wheelwork_change_rule('=' || $1, 'rate', false, NULL, NULL)
$$";

pub(super) const SET_RATE_KEYS: &str = "CREATE FUNCTION {s}.wheelwork_set_rate_keys(
    prefix text, per_second float8, burst bigint)
RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {s}.wheelwork_change_rule('*' || $1, 'rate', true, $2, $3)
$$";

pub(super) const CLEAR_RATE_KEYS: &str =
    "CREATE FUNCTION {s}.wheelwork_clear_rate_keys(prefix text)
RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {s}.wheelwork_change_rule('*' || $1, 'rate', false, NULL, NULL)
$$";

pub(super) const SET_CALLS: &str =
    "CREATE FUNCTION {s}.wheelwork_set_calls(kind text, calls bigint)
RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {s}.wheelwork_change_rule('=' || $1, 'calls', true, NULL, $2)
$$";

pub(super) const CLEAR_CALLS: &str = "CREATE FUNCTION {s}.wheelwork_clear_calls(kind text)
RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {s}.wheelwork_change_rule('=' || $1, 'calls', false, NULL, NULL)
$$";

pub(super) const SET_CALLS_KEYS: &str = "CREATE FUNCTION {s}.wheelwork_set_calls_keys(
    prefix text, calls bigint)
RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {s}.wheelwork_change_rule('*' || $1, 'calls', true, NULL, $2)
$$";

pub(super) const CLEAR_CALLS_KEYS: &str = "CREATE FUNCTION {s}.wheelwork_clear_calls_keys(
    prefix text)
RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {s}.wheelwork_change_rule('*' || $1, 'calls', false, NULL, NULL)
$$";
