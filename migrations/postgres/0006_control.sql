-- What operators tell the gates of a tenant, and what the gates did about it. A row is never changed
-- and never deleted: the next order takes it back. Times are milliseconds since 1970.

-- Where the numbers come from. The update of this row is held until the commit, so that numbers have no
-- gaps and become visible in their order: whoever has read up to one has missed none below it.
CREATE TABLE ledger.control_head (
  tenant_id text PRIMARY KEY, seq bigint NOT NULL CHECK (seq >= 1)) WITH (fillfactor = 50);

CREATE TABLE ledger.control_row (
  tenant_id text NOT NULL,
  seq       bigint NOT NULL CHECK (seq >= 1),
  at        bigint NOT NULL,
  kind      text NOT NULL,
  body      text NOT NULL CHECK (octet_length(body) <= 16777216),
  subject   text NOT NULL,
  roles     text NOT NULL,
  auth      text NOT NULL,
  reason    text NOT NULL,
  expires   bigint,
  PRIMARY KEY (tenant_id, seq));

CREATE TABLE ledger.control_report (
  tenant_id text NOT NULL, seq bigint NOT NULL, origin text NOT NULL, at bigint NOT NULL, done text NOT NULL,
  PRIMARY KEY (tenant_id, seq, origin));

CREATE TABLE ledger.control_presence (
  tenant_id text NOT NULL, origin text NOT NULL, writer text NOT NULL, at bigint NOT NULL, seq bigint NOT NULL,
  state text NOT NULL, PRIMARY KEY (tenant_id, origin)) WITH (fillfactor = 50);

CREATE FUNCTION ledger.control_head_guard() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$ BEGIN
  IF NEW.tenant_id <> OLD.tenant_id OR NEW.seq <> OLD.seq + 1 THEN
    RAISE EXCEPTION 'ledger.control_head counts by one' USING ERRCODE = '42501';
  END IF; RETURN NEW; END $$;
CREATE FUNCTION ledger.control_row_guard() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM ledger.control_head h WHERE h.tenant_id = NEW.tenant_id AND h.seq = NEW.seq) THEN
    RAISE EXCEPTION 'ledger.control_row is append-only (INSERT out of order refused)' USING ERRCODE = '42501';
  END IF; RETURN NEW; END $$;
CREATE TRIGGER control_head_counts BEFORE UPDATE ON ledger.control_head
  FOR EACH ROW EXECUTE FUNCTION ledger.control_head_guard();
CREATE TRIGGER control_head_no_delete BEFORE DELETE ON ledger.control_head
  FOR EACH ROW EXECUTE FUNCTION ledger.reject();
CREATE TRIGGER control_row_next BEFORE INSERT ON ledger.control_row
  FOR EACH ROW EXECUTE FUNCTION ledger.control_row_guard();
CREATE TRIGGER control_row_no_rewrite BEFORE UPDATE OR DELETE ON ledger.control_row
  FOR EACH ROW EXECUTE FUNCTION ledger.reject();
CREATE TRIGGER control_row_no_truncate BEFORE TRUNCATE ON ledger.control_row
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();
CREATE TRIGGER control_head_no_truncate BEFORE TRUNCATE ON ledger.control_head
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();
ALTER TABLE ledger.control_head ENABLE ALWAYS TRIGGER control_head_counts;
ALTER TABLE ledger.control_head ENABLE ALWAYS TRIGGER control_head_no_delete;
ALTER TABLE ledger.control_head ENABLE ALWAYS TRIGGER control_head_no_truncate;
ALTER TABLE ledger.control_row ENABLE ALWAYS TRIGGER control_row_next;
ALTER TABLE ledger.control_row ENABLE ALWAYS TRIGGER control_row_no_rewrite;
ALTER TABLE ledger.control_row ENABLE ALWAYS TRIGGER control_row_no_truncate;

CREATE FUNCTION ledger.control_put(p_at bigint, p_kind text, p_body text, p_subject text, p_roles text,
  p_auth text, p_reason text, p_expires bigint)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE mine text := ledger.tenant(); n bigint; BEGIN
  PERFORM ledger.durable();
  INSERT INTO ledger.control_head AS h VALUES (mine, 1)
  ON CONFLICT (tenant_id) DO UPDATE SET seq = h.seq + 1 RETURNING h.seq INTO n;
  INSERT INTO ledger.control_row VALUES
    (mine, n, p_at, p_kind, p_body, p_subject, p_roles, p_auth, p_reason, p_expires);
  RETURN n; END $$;

CREATE FUNCTION ledger.control_since(p_seq bigint, p_limit bigint)
RETURNS SETOF ledger.control_row LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE mine text := ledger.tenant(); BEGIN
  RETURN QUERY SELECT * FROM ledger.control_row r WHERE r.tenant_id = mine AND r.seq > p_seq
                ORDER BY r.seq LIMIT p_limit; END $$;

-- A gate speaks for the log whose lease it holds, and for no other.
CREATE FUNCTION ledger.control_speaks(p_chain bytea, p_epoch bigint, p_secret bytea, p_origin text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  IF NOT EXISTS (SELECT 1 FROM ledger.chain c WHERE c.chain_id = p_chain AND c.origin = p_origin) THEN
    RAISE EXCEPTION 'this lease is not that of %', p_origin USING ERRCODE = '42501';
  END IF; END $$;

CREATE FUNCTION ledger.control_report(p_chain bytea, p_epoch bigint, p_secret bytea, p_seq bigint,
  p_origin text, p_at bigint, p_done text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE mine text := ledger.tenant(); BEGIN
  PERFORM ledger.durable();
  PERFORM ledger.control_speaks(p_chain, p_epoch, p_secret, p_origin);
  INSERT INTO ledger.control_report VALUES (mine, p_seq, p_origin, p_at, p_done)
  ON CONFLICT (tenant_id, seq, origin) DO UPDATE SET at = EXCLUDED.at, done = EXCLUDED.done; END $$;

CREATE FUNCTION ledger.control_show(p_chain bytea, p_epoch bigint, p_secret bytea, p_origin text,
  p_writer text, p_seq bigint, p_state text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE mine text := ledger.tenant(); v_now bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint; BEGIN
  PERFORM ledger.control_speaks(p_chain, p_epoch, p_secret, p_origin);
  INSERT INTO ledger.control_presence VALUES (mine, p_origin, p_writer, v_now, p_seq, p_state)
  ON CONFLICT (tenant_id, origin) DO UPDATE
    SET writer = EXCLUDED.writer, at = EXCLUDED.at, seq = EXCLUDED.seq, state = EXCLUDED.state; END $$;

CREATE FUNCTION ledger.control_reports(p_seq bigint)
RETURNS SETOF ledger.control_report LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE mine text := ledger.tenant(); BEGIN
  RETURN QUERY SELECT * FROM ledger.control_report r WHERE r.tenant_id = mine AND r.seq = p_seq
                ORDER BY r.origin COLLATE "C"; END $$;

CREATE FUNCTION ledger.control_shown()
RETURNS SETOF ledger.control_presence LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE mine text := ledger.tenant(); BEGIN
  RETURN QUERY SELECT * FROM ledger.control_presence p WHERE p.tenant_id = mine
                ORDER BY p.origin COLLATE "C"; END $$;

REVOKE ALL ON FUNCTION ledger.control_head_guard, ledger.control_row_guard, ledger.control_put,
  ledger.control_since, ledger.control_speaks, ledger.control_report, ledger.control_show,
  ledger.control_reports, ledger.control_shown FROM PUBLIC;
REVOKE ALL ON TABLE ledger.control_head, ledger.control_row, ledger.control_report, ledger.control_presence
  FROM PUBLIC;
GRANT USAGE ON SCHEMA ledger TO ledger_operator;
GRANT EXECUTE ON FUNCTION ledger.version TO ledger_operator;
GRANT EXECUTE ON FUNCTION ledger.control_put TO ledger_operator;
GRANT EXECUTE ON FUNCTION ledger.control_since, ledger.control_reports, ledger.control_shown
  TO ledger_writer, ledger_operator;
GRANT EXECUTE ON FUNCTION ledger.control_report, ledger.control_show TO ledger_writer;

-- Readers see their tenant. The owner, and so the functions above, are not bound by this.
ALTER TABLE ledger.control_row ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger.control_report ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger.control_presence ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON ledger.control_row FOR SELECT TO ledger_reader USING (ledger.reader_sees(tenant_id));
CREATE POLICY tenant ON ledger.control_report FOR SELECT TO ledger_reader USING (ledger.reader_sees(tenant_id));
CREATE POLICY tenant ON ledger.control_presence FOR SELECT TO ledger_reader USING (ledger.reader_sees(tenant_id));
GRANT SELECT ON ledger.control_row, ledger.control_report, ledger.control_presence TO ledger_reader;
