//! The rules of the firewall that operators added to ours: a bundle has them, so that arguments are searched
//! again as the gate searched them.

use super::case::Case;
use crate::contents;
use crate::domain::digest::Digest;
use crate::firewall::{self, OwnRules};

/// Searches with the rules of this bundle from here on, unless this process searches with others already.
/// A decision with other rules than these is named, and its findings are not compared.
pub fn adopt(case: &Case<'_>) {
    for (name, digest) in contents::firewall_rules(&case.slices) {
        let Some(document) = case.files.get(&name) else { continue };
        if Digest::of(&[document]) != digest {
            continue;
        }
        if let Ok(Some(rules)) = OwnRules::of_document(document)
            && firewall::install(rules).is_ok()
        {
            return;
        }
    }
}
