//! The routes of amendments.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;

use super::credential::Shown;
use super::http::{
    BUNDLE_BODY_MAX, admit, answer, body, body_of, malformed, optional, sent_answer, signed,
};
use crate::operator::Office;
use crate::operator::staff::Right;

/// The router of `/v1/amendments`.
pub(super) fn router() -> Router<Arc<Office>> {
    Router::new()
        .route("/v1/amendments", get(list).post(propose))
        .route("/v1/amendments/{bundle}", get(show).post(publish))
        .route("/v1/amendments/{bundle}/activate", axum::routing::post(activate))
}

async fn list(State(office): State<Arc<Office>>, shown: Shown) -> Response {
    let said = async {
        office.admit(&shown, Right::Study)?;
        Ok((StatusCode::OK, office.amendments().await?))
    };
    answer(said.await)
}

async fn show(State(office): State<Arc<Office>>, bundle: Path<String>, shown: Shown) -> Response {
    let said = async {
        office.admit(&shown, Right::Study)?;
        Ok((StatusCode::OK, office.amendment(&bundle.0).await?))
    };
    answer(said.await)
}

async fn propose(State(office): State<Arc<Office>>, request: Request) -> Response {
    let said = async {
        let who = admit(&office, &request, Right::Propose)?;
        let names = ["files", "base", "reason"];
        let body = body_of(&office, request, &names, BUNDLE_BODY_MAX).await?;
        let files = body.get("files").ok_or_else(|| {
            malformed(&office, "expected `files`: names and base64 of the bundle's files")
        })?;
        let base = optional(&office, &body, "base")?;
        let reason = optional(&office, &body, "reason")?.unwrap_or_default();
        let sent = office.propose(&who, (files, base), reason).await?;
        Ok(sent_answer(&sent))
    };
    answer(said.await)
}

async fn publish(
    State(office): State<Arc<Office>>,
    bundle: Path<String>,
    request: Request,
) -> Response {
    let said = async {
        let who = admit(&office, &request, Right::Publish)?;
        let signed = signed(&office, request).await?;
        let sent = office.publish(&who, &bundle.0, signed).await?;
        Ok(sent_answer(&sent))
    };
    answer(said.await)
}

async fn activate(
    State(office): State<Arc<Office>>,
    bundle: Path<String>,
    request: Request,
) -> Response {
    let said = async {
        let who = admit(&office, &request, Right::Publish)?;
        body(&office, request, &[]).await?;
        let sent = office.activate(&who, &bundle.0).await?;
        Ok(sent_answer(&sent))
    };
    answer(said.await)
}
