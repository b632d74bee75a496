//! (catalog)
