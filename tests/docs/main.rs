//! What the documents say is so: names, statuses, commands, output, links; and the reference pages are the program's.
//!
//! After an intended change: `WICKETGATE_BLESS=1 cargo test --test docs`, then read the difference.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stderr,
    reason = "tests may stop at the first surprise"
)]

mod commands;
mod comparison;
mod document;
mod first_day;
mod flags;
mod guarantees;
mod links;
mod output;
mod pages;
mod reference;
mod site;

use std::path::Path;

/// The top of the repository.
fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Holds a generated page against what is generated now.
fn assert_generated(path: &str, now: &str) {
    let file = top().join(path);
    if std::env::var_os("WICKETGATE_BLESS").is_some() {
        std::fs::write(&file, now).unwrap();
    }
    let page = std::fs::read_to_string(&file).unwrap_or_default();
    let differs = page.lines().zip(now.lines()).position(|(page, now)| page != now);
    let line = differs.unwrap_or(page.lines().count().min(now.lines().count())) + 1;
    assert!(
        page == now,
        "{path}:{line} is not what the program makes: `WICKETGATE_BLESS=1 cargo test --test docs`, then read the difference"
    );
}
