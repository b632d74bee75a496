//! The configuration: every field with its type, default and meaning.

pub fn page() -> String {
    wicketgate::config::doc::page()
}
