//! Locks: what is read, what is refused, who signed.
