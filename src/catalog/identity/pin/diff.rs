//! The longest common sequence of two lists (Myers, "An O(ND) Difference Algorithm").

/// Pieces in which two lists differ, at most: others have nothing in common that helps.
const EDITS_MAX: usize = 1024;

/// The indices of equal pieces, in order. `None` if the lists differ in more than 1,024 pieces.
pub fn common(one: &[&str], other: &[&str]) -> Option<Vec<(usize, usize)>> {
    let same = |(one, other): &(&&str, &&str)| one == other;
    let before = one.iter().zip(other).take_while(same).count();
    let (one_rest, other_rest) = (one.get(before..)?, other.get(before..)?);
    let behind = one_rest.iter().rev().zip(other_rest.iter().rev()).take_while(same).count();
    let (width, height) =
        (one_rest.len().saturating_sub(behind), other_rest.len().saturating_sub(behind));
    let middle = path(one_rest.get(..width)?, other_rest.get(..height)?)?;
    let mut all: Vec<_> = (0..before).map(|i| (i, i)).collect();
    let shift = |by: usize| move |i: usize| i.saturating_add(by);
    all.extend(middle.into_iter().map(|(x, y)| (shift(before)(x), shift(before)(y))));
    let (x, y) = (shift(before)(width), shift(before)(height));
    all.extend((0..behind).map(|i| (shift(x)(i), shift(y)(i))));
    Some(all)
}

fn at(reached: &[usize], index: Option<usize>) -> Option<usize> {
    index.and_then(|index| reached.get(index)).copied()
}

/// Where diagonal `index` begins after one more edit, and whether that edit took a piece of `one`.
/// `reached` has the furthest place in `one` on each diagonal: diagonal `k` of Myers is at the index
/// `k` plus the number of edits allowed.
fn edit(reached: &[usize], index: usize, (low, high): (usize, usize)) -> (usize, bool) {
    let taken = at(reached, index.checked_sub(1)).filter(|_| index > low);
    let given = at(reached, index.checked_add(1)).filter(|_| index < high);
    match (taken, given) {
        (Some(taken), Some(given)) if taken < given => (given, false),
        (Some(taken), _) => (taken.saturating_add(1), true),
        (None, given) => (given.unwrap_or(0), false),
    }
}

fn path(one: &[&str], other: &[&str]) -> Option<Vec<(usize, usize)>> {
    let most = one.len().saturating_add(other.len()).min(EDITS_MAX);
    let down = |x: usize, index: usize| x.saturating_add(most).checked_sub(index);
    let mut reached: Vec<usize> = vec![0; most.saturating_mul(2).saturating_add(1)];
    let mut trace = Vec::new();
    for edits in 0..=most {
        let (low, high) = (most.saturating_sub(edits), most.saturating_add(edits));
        let before = reached.clone();
        for index in (low..=high).step_by(2) {
            let mut x = if edits == 0 { 0 } else { edit(&before, index, (low, high)).0 };
            let Some(mut y) = down(x, index) else { continue };
            while let (Some(a), Some(b)) = (one.get(x), other.get(y))
                && a == b
            {
                (x, y) = (x.saturating_add(1), y.saturating_add(1));
            }
            if let Some(slot) = reached.get_mut(index) {
                *slot = x;
            }
            if x >= one.len() && y >= other.len() {
                return Some(back(&trace, (one.len(), other.len()), most));
            }
        }
        trace.push(reached.clone());
    }
    None
}

/// The equal pieces on the way back from the end. `trace` has what was reached after each edit.
fn back(trace: &[Vec<usize>], (mut x, mut y): (usize, usize), most: usize) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for (edits, before) in trace.iter().enumerate().rev() {
        let edits = edits.saturating_add(1);
        let bounds = (most.saturating_sub(edits), most.saturating_add(edits));
        let index = x.saturating_add(most).saturating_sub(y);
        let (begin, took) = edit(before, index, bounds);
        while x > begin {
            (x, y) = (x.saturating_sub(1), y.saturating_sub(1));
            pairs.push((x, y));
        }
        if took {
            x = x.saturating_sub(1);
        } else {
            y = y.saturating_sub(1);
        }
    }
    while x > 0 && y > 0 {
        (x, y) = (x.saturating_sub(1), y.saturating_sub(1));
        pairs.push((x, y));
    }
    pairs.reverse();
    pairs
}
