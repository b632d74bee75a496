-- Schema 14: the last entries outside of runs of some kinds, by the index of their kinds. A gate that starts looks for a few
-- of them and read everything that its last life had recorded. Gates of schema 12 go on with it.
CREATE FUNCTION ledger.lone(p_chain bytea, p_epoch bigint, p_secret bytea, p_kinds text[], p_before bigint, p_limit bigint)
RETURNS SETOF ledger.entry LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  RETURN QUERY SELECT * FROM ledger.entry e WHERE e.chain_id = p_chain AND e.run_id IS NULL AND e.kind = ANY (p_kinds)
                AND e.seq < p_before ORDER BY e.seq DESC LIMIT p_limit; END $$;
REVOKE ALL ON FUNCTION ledger.lone FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger.lone TO ledger_writer;
