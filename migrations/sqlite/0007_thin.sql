-- A pruning thins the checkpoints of what it drops: the last of each epoch stays, and every one that the
-- fleet log has recorded. Those of later entries stay all.
DROP TRIGGER checkpoint_no_delete;
CREATE TRIGGER checkpoint_no_delete BEFORE DELETE ON checkpoint BEGIN
  SELECT RAISE(ABORT, 'ledger.checkpoint is append-only (DELETE refused)')
   WHERE NOT EXISTS (SELECT 1 FROM pruned p
                      WHERE p.chain_id = OLD.chain_id AND OLD.size > p.low AND OLD.size <= p.high)
      OR NOT EXISTS (SELECT 1 FROM checkpoint c
                      WHERE c.chain_id = OLD.chain_id AND c.epoch = OLD.epoch AND c.size > OLD.size);
END;
