//! Rights: who may do what with what a step has made, and how it is kept. For PostgreSQL alone: a
//! database that does not know these statements does without. `{s}` stands for the schema.

/// What is new belongs to the owner of the tables, whoever has made the step. Roles get the rights
/// on new tables that they have on `timer`.
///
/// An update of the system may change how a language sorts. Names sort by their bytes, so no index
/// of theirs is wrong after that.
pub(super) const STEP_4: &[&str] = &[
    "ALTER TABLE {s}.rule SET (fillfactor = 20)",
    "ALTER TABLE {s}.setting ALTER COLUMN name TYPE text COLLATE \"C\"",
    "ALTER TABLE {s}.rule ALTER COLUMN name TYPE text COLLATE \"C\"",
    "DO $$
DECLARE
    of record;
BEGIN
    FOR of IN SELECT r.rolname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_roles r
            ON r.oid = c.relowner
        WHERE c.oid = '{s}.timer'::regclass AND r.rolname <> current_user
    LOOP
        EXECUTE format('ALTER TABLE {s}.setting OWNER TO %I', of.rolname);
        EXECUTE format('ALTER TABLE {s}.rule OWNER TO %I', of.rolname);
        EXECUTE format('ALTER TABLE {s}.done OWNER TO %I', of.rolname);
        EXECUTE format('ALTER FUNCTION {s}.wheelwork_close(bigint, text) OWNER TO %I', of.rolname);
    END LOOP;
    FOR of IN SELECT a.privilege_type AS what,
            CASE WHEN r.rolname IS NULL THEN 'PUBLIC' ELSE format('%I', r.rolname) END AS whose
        FROM pg_catalog.pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
            LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
        WHERE c.oid = '{s}.timer'::regclass AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT %s ON {s}.setting, {s}.rule, {s}.done TO %s', of.what, of.whose);
    END LOOP;
END
$$",
];

/// The functions that are new belong to the owner of the tables, too: all of ours that belong to
/// the role that makes the step.
pub(super) const STEP_5: &[&str] = &[
    "ALTER TABLE {s}.permit SET (fillfactor = 20)",
    "ALTER TABLE {s}.permit ALTER COLUMN name TYPE text COLLATE \"C\"",
    "REVOKE EXECUTE ON FUNCTION
        {s}.wheelwork_change_rule(text, text, boolean, float8, bigint) FROM PUBLIC",
    "DO $$
DECLARE
    of record;
    own record;
BEGIN
    FOR of IN SELECT r.rolname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_roles r
            ON r.oid = c.relowner
        WHERE c.oid = '{s}.timer'::regclass AND r.rolname <> current_user
    LOOP
        EXECUTE format('ALTER TABLE {s}.permit OWNER TO %I', of.rolname);
        FOR own IN SELECT p.oid::regprocedure::text AS what FROM pg_catalog.pg_proc p
            JOIN pg_catalog.pg_class c ON c.relnamespace = p.pronamespace
            WHERE c.oid = '{s}.timer'::regclass AND pg_get_userbyid(p.proowner) = current_user
                AND left(p.proname, 10) = 'wheelwork_'
        LOOP
            EXECUTE format('ALTER FUNCTION %s OWNER TO %I', own.what, of.rolname);
        END LOOP;
    END LOOP;
    FOR of IN SELECT a.privilege_type AS what,
            CASE WHEN r.rolname IS NULL THEN 'PUBLIC' ELSE format('%I', r.rolname) END AS whose
        FROM pg_catalog.pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
            LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
        WHERE c.oid = '{s}.timer'::regclass AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT %s ON {s}.permit TO %s', of.what, of.whose);
    END LOOP;
END
$$",
];
