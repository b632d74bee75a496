//! The routes of exports, erasures and holds.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;

use super::credential::Shown;
use super::http::{admit, answer, body, malformed};
use super::{Office, erasures_asked, exports};
use crate::operator::staff::Right;

/// The router of `/v1/exports`, `/v1/erasures` and `/v1/holds`.
pub(super) fn router() -> Router<Arc<Office>> {
    Router::new()
        .route("/v1/exports", post(export))
        .route("/v1/erasures", get(list).post(erase))
        .route("/v1/erasures/head", get(head))
        .route("/v1/erasures/{seq}", get(show))
        .route("/v1/holds", get(holds).post(hold))
}

async fn export(State(office): State<Arc<Office>>, request: Request) -> Response {
    let made = async {
        let who = admit(&office, &request, Right::Export)?;
        let body = body(&office, request, &exports::MEMBERS).await?;
        let asked = office.export_asked(&body)?;
        office.export(&who, asked).await
    };
    match made.await {
        Ok(made) => made.response(&office.tasks),
        Err(problem) => problem.response().map(Body::from),
    }
}

async fn erase(State(office): State<Arc<Office>>, request: Request) -> Response {
    let said = async {
        let who = admit(&office, &request, Right::Erase)?;
        let body = body(&office, request, &erasures_asked::ERASE).await?;
        let asked = office.erasure_asked(&body)?;
        Ok((StatusCode::OK, office.erase(&who, asked).await?))
    };
    answer(said.await)
}

async fn list(State(office): State<Arc<Office>>, shown: Shown) -> Response {
    let said = async {
        office.admit(&shown, Right::Custody)?;
        Ok((StatusCode::OK, office.erasures().await?))
    };
    answer(said.await)
}

async fn head(State(office): State<Arc<Office>>, shown: Shown) -> Response {
    let said = async {
        office.admit(&shown, Right::Custody)?;
        Ok((StatusCode::OK, office.erasures_head().await?))
    };
    answer(said.await)
}

async fn show(State(office): State<Arc<Office>>, path: Path<String>, shown: Shown) -> Response {
    let said = async {
        office.admit(&shown, Right::Custody)?;
        let seq = path.0.parse().ok();
        let seq = seq.ok_or_else(|| malformed(&office, "an erasure is the number of its entry"))?;
        Ok((StatusCode::OK, office.erasure(seq).await?))
    };
    answer(said.await)
}

async fn holds(State(office): State<Arc<Office>>, shown: Shown) -> Response {
    let said = async {
        office.admit(&shown, Right::Custody)?;
        Ok((StatusCode::OK, office.holds().await?))
    };
    answer(said.await)
}

async fn hold(State(office): State<Arc<Office>>, request: Request) -> Response {
    let said = async {
        let who = admit(&office, &request, Right::Hold)?;
        let body = body(&office, request, &erasures_asked::HOLD).await?;
        let asked = office.hold_asked(&body)?;
        Ok((StatusCode::OK, office.hold(&who, asked).await?))
    };
    answer(said.await)
}
