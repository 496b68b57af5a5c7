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
    PERFORM 1 FROM golden.gate g WHERE g.part = $5 FOR SHARE;
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
    IF part > 255 THEN
        RETURN false;
    END IF;
    p := part;
    PERFORM 1 FROM golden.gate g WHERE g.part = p FOR SHARE;
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
    PERFORM 1 FROM golden.gate g WHERE g.part = p FOR SHARE;
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
CREATE FUNCTION golden.wheelwork_clock() RETURNS bigint
    LANGUAGE sql
    AS $$
    SELECT ceil(extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;
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
CREATE FUNCTION golden.wheelwork_id(part smallint, due bigint) RETURNS uuid
    LANGUAGE sql
    AS $$
    SELECT (lpad(to_hex(part::int), 4, '0') || lpad(to_hex(due), 12, '0')
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
    SELECT ('x' || substr(md5(key), 1, 2))::bit(8)::int::smallint
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
    IF part > 255 THEN
        RETURN false;
    END IF;
    p := part;
    PERFORM 1 FROM golden.gate g WHERE g.part = p FOR SHARE;
    d := golden.wheelwork_find(p, first, $1);
    IF d IS NULL THEN
        RETURN false;
    END IF;
    IF d <= golden.wheelwork_upto(p) THEN
        RAISE EXCEPTION USING ERRCODE = 'WW001';
    END IF;
    UPDATE golden.timer t SET due = next, moved = next <> first
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
    PERFORM 1 FROM golden.gate g WHERE g.part = p FOR SHARE;
    SELECT f.d, f.timer INTO old FROM golden.wheelwork_find_key(p, $1) f;
    IF old.timer IS NULL THEN
        RETURN false;
    END IF;
    IF old.d <= golden.wheelwork_upto(p) THEN
        RAISE EXCEPTION USING ERRCODE = 'WW001';
    END IF;
    UPDATE golden.timer t SET due = next, moved = true
        WHERE t.part = p AND t.due = old.d AND t.id = old.timer;
    RETURN true;
EXCEPTION WHEN SQLSTATE 'WW001' THEN
    RETURN false;
END
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
        COALESCE(golden.wheelwork_part($4), floor(random() * 256)::smallint) AS part) w
$_$;
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
    since bigint NOT NULL
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
    clean boolean NOT NULL
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
    dead boolean NOT NULL
)
WITH (fillfactor='20');
CREATE TABLE golden.seq (
    node uuid NOT NULL,
    seq bigint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');
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
    epoch bigint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.2', autovacuum_vacuum_cost_delay='0');
CREATE TABLE golden.watermark (
    node uuid NOT NULL,
    gen bigint NOT NULL,
    upto bigint NOT NULL
)
WITH (fillfactor='20', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0');
INSERT INTO golden.dead VALUES ('000b01a2-1ea8-2a85-6d55-e85fec1fe25f', 1795810667141, 'mail', NULL, '\x6275726965642030', 3, 0, NULL, 0, '', 1795810667136);
INSERT INTO golden.dead VALUES ('000c01a2-1ea8-2a86-6d55-e85fec1fe260', 1795810667142, 'mail', NULL, '\x6275726965642031', 3, 0, NULL, 1, 'no number', 1795810667136);
INSERT INTO golden.dead VALUES ('000d01a2-1ea8-2a87-6d55-e85fec1fe261', 1795810667143, 'mail', NULL, '\x6275726965642032', 3, 0, NULL, 2, 'no route', 1795810667136);
INSERT INTO golden.dead VALUES ('000e01a2-1ea8-2a88-6d55-e85fec1fe262', 1795810667144, 'mail', NULL, '\x6275726965642033', 3, 0, NULL, 3, '', 1795810667136);
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
INSERT INTO golden.lease VALUES (0, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (1, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (2, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (3, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (4, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (5, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (6, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (7, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (8, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (9, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (10, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (11, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (12, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (13, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (14, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (15, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (16, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (17, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (18, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (19, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (20, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (21, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (22, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (23, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (24, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (25, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (26, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (27, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (28, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (29, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (30, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (31, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (32, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (33, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (34, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (35, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (36, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (37, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (38, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (39, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (40, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (41, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (42, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (43, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (44, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (45, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (46, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (47, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (48, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (49, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (50, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (51, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (52, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (53, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (54, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (55, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (56, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (57, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (58, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (59, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (60, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (61, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (62, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (63, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (64, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (65, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (66, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (67, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (68, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (69, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (70, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (71, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (72, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (73, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (74, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (75, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (76, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (77, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (78, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (79, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (80, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (81, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (82, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (83, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (84, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (85, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (86, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (87, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (88, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (89, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (90, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (91, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (92, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (93, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (94, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (95, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (96, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (97, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (98, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (99, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (100, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (101, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (102, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (103, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (104, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (105, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (106, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (107, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (108, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (109, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (110, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (111, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (112, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (113, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (114, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (115, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (116, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (117, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (118, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (119, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (120, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (121, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (122, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (123, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (124, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (125, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (126, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (127, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (128, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (129, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (130, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (131, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (132, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (133, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (134, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (135, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (136, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (137, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (138, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (139, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (140, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (141, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (142, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (143, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (144, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (145, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (146, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (147, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (148, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (149, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (150, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (151, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (152, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (153, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (154, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (155, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (156, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (157, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (158, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (159, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (160, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (161, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (162, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (163, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (164, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (165, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (166, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (167, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (168, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (169, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (170, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (171, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (172, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (173, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (174, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (175, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (176, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (177, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (178, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (179, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (180, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (181, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (182, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (183, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (184, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (185, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (186, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (187, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (188, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (189, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (190, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (191, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (192, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (193, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (194, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (195, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (196, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (197, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (198, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (199, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (200, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (201, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (202, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (203, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (204, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (205, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (206, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (207, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (208, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (209, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (210, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (211, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (212, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (213, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (214, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (215, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (216, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (217, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (218, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (219, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (220, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (221, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (222, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (223, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (224, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (225, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (226, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (227, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (228, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (229, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (230, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (231, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (232, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (233, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (234, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (235, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (236, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (237, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (238, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (239, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (240, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (241, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (242, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (243, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (244, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (245, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (246, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (247, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (248, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (249, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (250, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (251, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (252, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (253, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (254, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.lease VALUES (255, 'd91630f1-ddce-c689-b1e6-0548ed7df448', 1, -1, -1, false);
INSERT INTO golden.meta VALUES (1, 3);
INSERT INTO golden.node VALUES ('d91630f1-ddce-c689-b1e6-0548ed7df448', 'dies', '2026-11-27 21:17:47.11863+00', false, false);
INSERT INTO golden.seq VALUES ('d91630f1-ddce-c689-b1e6-0548ed7df448', 31);
INSERT INTO golden.timer VALUES (1, 4102444800000, '000103bb-2cc3-d800-6d55-e85fec1fe24e', 'mail', NULL, '\x77616974732030', 0, 0, NULL, false, false, 1);
INSERT INTO golden.timer VALUES (14, 4102444800000, '000e03bb-2cc3-d800-6d55-e85fec1fe24f', 'mail', 'key 0', '\x6861732061206b65792030', 0, 0, NULL, false, false, 1);
INSERT INTO golden.timer VALUES (2, 4102444801000, '000203bb-2cc3-d800-6d55-e85fec1fe250', 'mail', NULL, '\x6d6f7665642030', 0, 0, NULL, false, true, 1);
INSERT INTO golden.timer VALUES (32, 4102444800000, '002003bb-2cc3-d800-6d55-e85fec1fe251', 'mail', 'calendar 0', '\x7265637572732030', 0, 0, '0 0 * * * Europe/Berlin', false, false, 1);
INSERT INTO golden.timer VALUES (3, 4102444800001, '000303bb-2cc3-d801-6d55-e85fec1fe252', 'mail', NULL, '\x77616974732031', 0, 0, NULL, false, false, 1);
INSERT INTO golden.timer VALUES (31, 4102444800001, '001f03bb-2cc3-d801-6d55-e85fec1fe253', 'mail', 'key 1', '\x6861732061206b65792031', 0, 0, NULL, false, false, 1);
INSERT INTO golden.timer VALUES (4, 4102444801001, '000403bb-2cc3-d801-6d55-e85fec1fe254', 'mail', NULL, '\x6d6f7665642031', 0, 0, NULL, false, true, 1);
INSERT INTO golden.timer VALUES (122, 4102444800001, '007a03bb-2cc3-d801-6d55-e85fec1fe255', 'mail', 'calendar 1', '\x7265637572732031', 0, 0, '0 0 * * * Europe/Berlin', false, false, 1);
INSERT INTO golden.timer VALUES (5, 4102444800002, '000503bb-2cc3-d802-6d55-e85fec1fe256', 'mail', NULL, '\x77616974732032', 0, 0, NULL, false, false, 1);
INSERT INTO golden.timer VALUES (8, 4102444800002, '000803bb-2cc3-d802-6d55-e85fec1fe257', 'mail', 'key 2', '\x6861732061206b65792032', 0, 0, NULL, false, false, 1);
INSERT INTO golden.timer VALUES (6, 4102444801002, '000603bb-2cc3-d802-6d55-e85fec1fe258', 'mail', NULL, '\x6d6f7665642032', 0, 0, NULL, false, true, 1);
INSERT INTO golden.timer VALUES (210, 4102444800002, '00d203bb-2cc3-d802-6d55-e85fec1fe259', 'mail', 'calendar 2', '\x7265637572732032', 0, 0, '0 0 * * * Europe/Berlin', false, false, 1);
INSERT INTO golden.timer VALUES (7, 1795810667136, '000701a2-1ea8-2a80-6d55-e85fec1fe25a', 'mail', NULL, '\x68616e646564206f75742030', 0, 0, NULL, false, false, 1);
INSERT INTO golden.timer VALUES (8, 1795810667137, '000801a2-1ea8-2a81-6d55-e85fec1fe25b', 'mail', NULL, '\x68616e646564206f75742031', 0, 0, NULL, false, false, 1);
INSERT INTO golden.timer VALUES (186, 1795810667139, '00ba01a2-1ea8-2a83-6d55-e85fec1fe25d', 'mail', NULL, '\x73757065727365646564', 0, 0, NULL, true, false, 1);
INSERT INTO golden.timer VALUES (186, 4102444800000, '00ba03bb-2cc3-d800-6d55-e85fec1fe263', 'mail', 'taken', '\x6861732073757065727365646564206974', 0, 0, NULL, false, false, 1);
INSERT INTO golden.timer VALUES (9, 1795810667138, '000901a2-1ea8-2a82-6d55-e85fec1fe25c', 'mail', NULL, '\x68616e646564206f75742032', 0, 1, NULL, false, false, 1);
INSERT INTO golden.timer VALUES (10, 4102444800000, '000a01a2-1ea8-2a84-6d55-e85fec1fe25e', 'mail', NULL, '\x747269656420616761696e', 2, 1, NULL, false, true, 1);
INSERT INTO golden.watermark VALUES ('d91630f1-ddce-c689-b1e6-0548ed7df448', 0, 1795810668136);
ALTER TABLE ONLY golden.dead
    ADD CONSTRAINT dead_pkey PRIMARY KEY (id);
ALTER TABLE ONLY golden.gate
    ADD CONSTRAINT gate_pkey PRIMARY KEY (part);
ALTER TABLE ONLY golden.lease
    ADD CONSTRAINT lease_pkey PRIMARY KEY (part);
ALTER TABLE ONLY golden.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (one);
ALTER TABLE ONLY golden.node
    ADD CONSTRAINT node_pkey PRIMARY KEY (node);
ALTER TABLE ONLY golden.seq
    ADD CONSTRAINT seq_pkey PRIMARY KEY (node, seq);
ALTER TABLE ONLY golden.timer
    ADD CONSTRAINT timer_pkey PRIMARY KEY (part, due, id);
ALTER TABLE ONLY golden.watermark
    ADD CONSTRAINT watermark_pkey PRIMARY KEY (node, gen);
CREATE UNIQUE INDEX timer_key ON golden.timer USING btree (part, key) WHERE (key IS NOT NULL);
CREATE INDEX timer_moved ON golden.timer USING btree (part, id) WHERE moved;
