//! The operator's look at the upstreams of a model.

use std::sync::Arc;

use crate::catalog::binding;
use crate::tool::net::Resolve;
use crate::tool::probe::{self, Point};

/// The operator's probe: whether each upstream is reachable. Sends no request, because most
/// upstreams demand a credential even for a list of models.
pub(in crate::tool) async fn probe(
    model: &binding::Model,
    resolve: &Arc<dyn Resolve>,
) -> Vec<Point> {
    let mut points = Vec::new();
    for place in &model.upstreams {
        let client = super::upstream::client(place, resolve);
        points.push(probe::connect(&place.origin, client, Some(&place.name)).await);
    }
    points
}
