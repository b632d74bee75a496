//! `docs/reference/`: pages that are made of the program's own tables.

mod agents_openapi;
mod api;
mod cli;
mod configuration;
mod controls;
mod entry;
mod errors;
mod openapi;

use crate::assert_generated;

/// The first lines of a generated page.
fn begin(title: &str, source: &str) -> String {
    format!(
        "# {title}\n\nGenerated from {source}; a test in `tests/docs/reference` compares the two.\n"
    )
}

#[test]
fn the_reference_is_made_of_the_programs_own_tables() {
    for (name, page) in [
        ("cli", cli::page()),
        ("errors", errors::page()),
        ("api", api::page()),
        ("entry", entry::page()),
        ("configuration", configuration::page()),
        ("controls", controls::page()),
    ] {
        assert_generated(&format!("docs/reference/{name}.md"), &page);
    }
    assert_generated("docs/reference/openapi.json", &openapi::page());
    assert_generated("docs/reference/agents-openapi.json", &agents_openapi::page());
}
