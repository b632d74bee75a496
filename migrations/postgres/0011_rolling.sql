-- While gates are replaced one after the other, those of the version before go on with the schema of the next: a
-- schema says which gates still write and read with it, the oldest by the schema they were built for.
ALTER TABLE ledger.schema_version ADD COLUMN serves int;

CREATE FUNCTION ledger.serves() RETURNS int LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog AS $$
  SELECT coalesce(v.serves, v.version) FROM ledger.schema_version v ORDER BY v.version DESC LIMIT 1 $$;

REVOKE ALL ON FUNCTION ledger.serves FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger.serves TO ledger_writer, ledger_reader, ledger_eraser, ledger_operator;
