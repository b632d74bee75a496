//! How vendors write their credentials, from their own public pages, as data.
//!
//! A new key of a vendor is one line here. The tests make keys from the lines: no key stands in them.

mod build;
mod cloud;
mod code;
mod keyed;
mod models;
mod money;
mod talk;
mod watch;
mod work;

use super::shape::{Keyed, Vendor};

/// Every vendor, in the order of the files.
pub(super) fn vendors() -> impl Iterator<Item = &'static Vendor> {
    [
        build::VENDORS,
        cloud::VENDORS,
        code::VENDORS,
        models::VENDORS,
        money::VENDORS,
        talk::VENDORS,
        watch::VENDORS,
        work::VENDORS,
    ]
    .into_iter()
    .flatten()
}

/// Keys that only a name beside them tells.
pub(super) fn keyed() -> &'static [Keyed] {
    keyed::KEYED
}
