-- Takes from every role of this database what no role of an agent's tool should be able to call. Run it once in the
-- database of the tool, as a superuser: psql -d DATABASE -f revoke.sql
--
-- PostgreSQL lets every role call the functions of pg_catalog. These run a text as SQL, keep large objects and locks,
-- reach other sessions, or wait. `wicketgate tools probe` says `unfit` while the role of a tool may call one of them.
-- Roles that need one get it back by name: GRANT EXECUTE ON FUNCTION pg_catalog.pg_sleep(double precision) TO …;
DO $$
DECLARE
  one regprocedure;
BEGIN
  FOR one IN
    SELECT p.oid FROM pg_catalog.pg_proc AS p
     WHERE p.pronamespace = 'pg_catalog'::regnamespace
       AND p.proname ~ '^(ts_stat|ts_rewrite|(query|cursor|table|schema|database)_to_xml.*|lo_.*|loread|lowrite|pg_(try_)?advisory.*|pg_sleep.*|pg_notify|pg_(cancel|terminate)_backend|pg_logical_emit_message|pg_export_snapshot|pg_log_backend_memory_contexts)$'
  LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', one);
  END LOOP;
END $$;
