//! The user of a sandbox under a root gate: a fresh uid and gid each time.
//!
//! Two sandboxes with the same uid could read each other's files and, without separate namespaces,
//! inspect each other's processes; and a leftover file of one would belong to the other.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::NOBODY;

/// The first uid of a range that no system and no user database assigns.
const FIRST: u32 = 0x7000_0000;
/// The number of uids before one is reused.
const COUNT: u32 = 1 << 24;

/// The uid for the next sandbox, or uid 65534 if this user namespace has no others. Meaningless for
/// a gate that is not root, whose processes keep its own uid.
pub fn next() -> u32 {
    static THERE: OnceLock<bool> = OnceLock::new();
    static TURN: AtomicU32 = AtomicU32::new(0);
    if !*THERE.get_or_init(|| ["uid", "gid"].into_iter().all(is_mapped)) {
        return NOBODY;
    }
    // Another gate on this host starts elsewhere in the range.
    let start = std::process::id().wrapping_mul(4_099);
    let turn = start.wrapping_add(TURN.fetch_add(1, Ordering::Relaxed));
    FIRST.saturating_add(turn.checked_rem(COUNT).unwrap_or_default())
}

/// Whether the whole range exists in this user namespace.
fn is_mapped(kind: &str) -> bool {
    let text = std::fs::read_to_string(format!("/proc/self/{kind}_map")).unwrap_or_default();
    text.lines().any(|line| holds(line, FIRST, COUNT))
}

/// Whether this line of a map, `inside outside length`, contains the whole range.
fn holds(line: &str, first: u32, count: u32) -> bool {
    let numbers: Vec<u64> =
        line.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect();
    let [inside, _outside, length] = numbers[..] else { return false };
    let (first, count) = (u64::from(first), u64::from(count));
    inside <= first && first.saturating_add(count) <= inside.saturating_add(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_map_without_them_is_known() {
        assert!(holds("         0          0 4294967295", FIRST, COUNT));
        for line in ["0 100000 65536", "0 0 1879048200", "", "1879048193 1 4000000000", "x y z"] {
            assert!(!holds(line, FIRST, COUNT), "{line}");
        }
    }

    #[test]
    fn none_is_given_twice() {
        let given: BTreeSet<u32> = (0..1000).map(|_| next()).collect();
        assert!(given.len() == 1000 || given == BTreeSet::from([NOBODY]), "{given:?}");
    }
}
