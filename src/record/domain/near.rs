//! Suggests names for a misspelt one.

/// The names that need the fewest changes, at most three, nearest first, if the changes are few for
/// their length.
pub fn names(meant: &str, all: impl IntoIterator<Item = String>) -> Vec<String> {
    let far = |name: &str| (name.chars().count() / 3).max(2);
    let near = all.into_iter().map(|name| (changes(meant, &name), name));
    let mut near: Vec<_> = near.filter(|(changes, name)| *changes <= far(name)).collect();
    near.sort();
    near.dedup();
    near.into_iter().take(3).map(|(_, name)| name).collect()
}

/// Letters to insert, drop or replace to turn one name into the other.
pub fn changes(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut next = vec![i.saturating_add(1)];
        for (j, y) in b.chars().enumerate() {
            let at = |k: usize| row.get(k).copied().unwrap_or(usize::MAX);
            let replaced = at(j).saturating_add(usize::from(x != y));
            let dropped = at(j.saturating_add(1)).saturating_add(1);
            let inserted = next.last().copied().unwrap_or(usize::MAX).saturating_add(1);
            next.push(replaced.min(dropped).min(inserted));
        }
        row = next;
    }
    row.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_near_and_another_name_is_not() {
        let all = || ["support-agent", "refund-agent", "a"].map(str::to_owned);
        assert_eq!(names("suport-agent", all()), ["support-agent"]);
        assert_eq!(names("support-agnet", all()), ["support-agent"]);
        assert_eq!(names("billing", all()), Vec::<String>::new());
    }
}
