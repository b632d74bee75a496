//! Orders that loosen: one takes the labels of a run away, others are signed.

use super::OperatorApi;
use super::api::replies::OrderReply;
use super::api::{OperatorRequest, route};
use super::http::malformed;
use crate::approval::Statement as _;
use crate::approval::order::OrderStatement;
use crate::control::{Order, Target};
use crate::domain::id::RunId;
use crate::serve::problem::Problem;

impl OperatorApi {
    /// Takes the labels of a run away: what it has read does not count any more.
    ///
    /// # Errors
    /// There is no reason or no such id, or as [`Self::order`].
    pub(super) async fn clear_taint(
        &self,
        request: OperatorRequest<route::TaintClearing>,
    ) -> Result<OrderReply, Problem> {
        let reason = &request.request.reason;
        let Some(run) = RunId::parse(&request.path.run) else {
            return Err(malformed(self, "the path must name a run by its id"));
        };
        if reason.trim().is_empty() {
            return Err(malformed(
                self,
                "write in `reason` why what the run has read does not count",
            ));
        }
        self.order(&request.who, &Order::ClearTaint { run }, (reason, None), None).await
    }
}

/// The subject of a signed order.
pub(super) fn loosened(statement: &str) -> Option<Target> {
    let order = OrderStatement::parse(statement.as_bytes()).ok()?;
    Target::parse(&order.target, &order.name)
}
