//! Turning a denial into an allow after it was judged.
use wicketgate::domain::decision::Verdict;
use wicketgate::judge::Judged;

pub fn soften(judged: &mut Judged) {
    judged.decision.verdict = Verdict::Allow;
}

fn main() {}
