//! Running a call that was judged, before the decision is on the books.
use wicketgate::domain::outcome::Unmasked;
use wicketgate::judge::Judged;
use wicketgate::tool::ToolExecutor;

pub async fn run(executor: &dyn ToolExecutor, judged: &Judged) -> Unmasked {
    executor.execute(judged).await
}

fn main() {}
