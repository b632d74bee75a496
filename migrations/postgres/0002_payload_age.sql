-- Schema 13: an index that no query used. Each payload cost a third insertion, in the order of its role.
-- Gates of schema 12 go on with it.
DROP INDEX ledger.payload_age;
