//! Observe mode: layers of a bundle whose decision is recorded and, for a while, not enforced.
//!
//! ```text
//! "enforcement": {"agent": {"mode": "observe", "until": "2026-12-20T00:00:00Z"}, "team": {"mode": "enforce"}}
//! ```
//!
//! Signed with the bundle. Only the agent and the team layer can observe, never the org layer, and only
//! for a while: `until` lies at most 30 days after the bundle's `not_before`, or, without one, after the
//! moment at which it is signed or put in force. From `until` on the layer is enforced; nothing has to be
//! loaded for that.

use std::time::Duration;

use super::fault::Error;
use crate::domain::json::Json;
use crate::domain::time::Timestamp;

/// How long a layer may observe at most.
pub const OBSERVE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The layers that may.
const LAYERS: [&str; 2] = ["agent", "team"];

/// What is wrong with the member `enforcement` of `bundle.json`.
#[derive(PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum MalformedEnforcement {
    #[error("`enforcement` is an object of layers")]
    Object,
    #[error("the org layer is always enforced")]
    Org,
    #[error("`enforcement`: no layer `{0}`; only `agent` and `team`")]
    Layer(String),
    #[error("`{0}` observes at most 30 days after `not_before`")]
    Long(&'static str),
    #[error("`enforcement.{0}` is no object")]
    NoObject(&'static str),
    #[error("unknown member `enforcement.{0}.{1}`")]
    Unknown(&'static str, String),
    #[error("`enforcement.{0}`: `until` belongs to mode `observe`")]
    Until(&'static str),
    #[error("`enforcement.{0}.until` is a UTC time (`2026-12-20T00:00:00Z`)")]
    Time(&'static str),
    #[error("`enforcement.{0}`: mode `observe` needs `until`")]
    NoUntil(&'static str),
    #[error("`enforcement.{0}.mode` is `observe` or `enforce`")]
    Mode(&'static str),
}

/// Which layers observe, and until when.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Enforcement {
    observe: Vec<(&'static str, Timestamp)>,
    /// `not_before` bounds `until` already.
    bounded: bool,
}

impl Enforcement {
    /// Reads the member `enforcement` of `bundle.json`, strictly.
    ///
    /// # Errors
    /// See [`Malformed`].
    pub(super) fn read(
        member: Option<&Json>,
        not_before: Option<Timestamp>,
    ) -> Result<Self, MalformedEnforcement> {
        let Some(member) = member else { return Ok(Self::default()) };
        let layers = member.as_object().ok_or(MalformedEnforcement::Object)?;
        let mut observe = Vec::new();
        for (layer, value) in layers {
            let Some(layer) = LAYERS.into_iter().find(|known| known == layer) else {
                return Err(match layer.as_str() {
                    "org" => MalformedEnforcement::Org,
                    unknown => MalformedEnforcement::Layer(unknown.to_owned()),
                });
            };
            if let Some(until) = read_layer(layer, value)? {
                if not_before.is_some_and(|from| until > from.plus(OBSERVE_MAX)) {
                    return Err(MalformedEnforcement::Long(layer));
                }
                observe.push((layer, until));
            }
        }
        Ok(Self { observe, bounded: not_before.is_some() })
    }

    /// The layers that observe at this time, sorted, and until when.
    pub fn observing(&self, now: Timestamp) -> Vec<(&'static str, Timestamp)> {
        self.observe.iter().copied().filter(|(_, until)| now < *until).collect()
    }

    /// Checks that no layer observes for longer than allowed, counted from now: the time of signing
    /// or of activation.
    ///
    /// # Errors
    /// `until` is too far away.
    pub fn check(&self, now: Timestamp) -> Result<(), Error> {
        let latest = now.plus(OBSERVE_MAX);
        let late = self.observe.iter().find(|(_, until)| !self.bounded && *until > latest);
        late.map_or(Ok(()), |(layer, until)| Err(Error::Observe { layer, until: *until, latest }))
    }
}

/// Until when this layer observes; `None` if it is enforced.
fn read_layer(
    layer: &'static str,
    value: &Json,
) -> Result<Option<Timestamp>, MalformedEnforcement> {
    let members = value.as_object().ok_or(MalformedEnforcement::NoObject(layer))?;
    if let Some(unknown) = members.keys().find(|key| !matches!(key.as_str(), "mode" | "until")) {
        return Err(MalformedEnforcement::Unknown(layer, unknown.clone()));
    }
    match (value.get("mode").and_then(Json::as_str), value.get("until")) {
        (Some("enforce"), None) => Ok(None),
        (Some("enforce"), Some(_)) => Err(MalformedEnforcement::Until(layer)),
        (Some("observe"), Some(until)) => {
            instant(until).map(Some).ok_or(MalformedEnforcement::Time(layer))
        }
        (Some("observe"), None) => Err(MalformedEnforcement::NoUntil(layer)),
        (Some(_) | None, _) => Err(MalformedEnforcement::Mode(layer)),
    }
}

/// A UTC time as `bundle.json` writes it.
pub(super) fn instant(value: &Json) -> Option<Timestamp> {
    let text = value.as_str().filter(|text| text.ends_with('Z'))?;
    let parsed = text.parse::<jiff::Timestamp>().ok()?;
    Some(Timestamp::from_millis(parsed.as_millisecond()))
}
