//! `wicketgate.v1.Firewall`: single values that pass the firewall by a signed order.

use tonic::{Request, Response, Status};

use super::{Services, number, objects, ordered};
use crate::operator::api::requests::{ExceptionEnd, OrderPath, SignedStatement};
use crate::operator::api::route;
use crate::serve::pb;
use crate::serve::pb::firewall_server::Firewall;

#[tonic::async_trait]
impl Firewall for Services {
    async fn list(
        &self,
        request: Request<pb::ListExceptionsRequest>,
    ) -> Result<Response<pb::ListExceptionsResponse>, Status> {
        let found = self.answer::<route::FindingAllowances, _>(request, |_, _| Ok(((), ())));
        let found = found.await?;
        let (exceptions, more) = (objects(&found.exceptions), found.more);
        Ok(Response::new(pb::ListExceptionsResponse { exceptions, more }))
    }

    async fn allow(
        &self,
        request: Request<pb::AllowFindingRequest>,
    ) -> Result<Response<pb::OrderResponse>, Status> {
        let sent = self.answer::<route::FindingAllowance, _>(request, |_, sent| {
            let pb::AllowFindingRequest { statement, signature } = sent;
            Ok(((), SignedStatement { statement, signature }))
        });
        sent.await.map(|reply| ordered(&reply))
    }

    async fn revoke(
        &self,
        request: Request<pb::RevokeExceptionRequest>,
    ) -> Result<Response<pb::OrderResponse>, Status> {
        let sent = self.answer::<route::FindingExceptionEnd, _>(request, |api, sent| {
            let pb::RevokeExceptionRequest { seq, reason } = sent;
            Ok((OrderPath { seq: number(api, seq)? }, ExceptionEnd { reason }))
        });
        sent.await.map(|reply| ordered(&reply))
    }
}
