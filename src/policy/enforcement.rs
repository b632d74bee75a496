//! Observe mode: layers of a bundle whose word is recorded and, for a while, not enforced.
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
    /// What is wrong, for a person.
    pub(super) fn read(
        member: Option<&Json>,
        not_before: Option<Timestamp>,
    ) -> Result<Self, String> {
        let Some(member) = member else { return Ok(Self::default()) };
        let layers = member.as_object().ok_or("`enforcement` is an object of layers")?;
        let mut observe = Vec::new();
        for (layer, said) in layers {
            let Some(layer) = LAYERS.into_iter().find(|known| known == layer) else {
                return Err(match layer.as_str() {
                    "org" => "the org layer is always enforced".to_owned(),
                    odd => format!("`enforcement`: no layer `{odd}`; only `agent` and `team`"),
                });
            };
            if let Some(until) = read_layer(layer, said)? {
                if not_before.is_some_and(|from| until > from.plus(OBSERVE_MAX)) {
                    return Err(format!("`{layer}` observes at most 30 days after `not_before`"));
                }
                observe.push((layer, until));
            }
        }
        Ok(Self { observe, bounded: not_before.is_some() })
    }

    /// The layers that observe at this time, sorted, and until when.
    #[must_use]
    pub fn observing(&self, now: Timestamp) -> Vec<(&'static str, Timestamp)> {
        self.observe.iter().copied().filter(|(_, until)| now < *until).collect()
    }

    /// Checks that no layer observes for longer than it may, seen from now: from when the bundle is
    /// signed and from when it is put in force.
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
fn read_layer(layer: &str, said: &Json) -> Result<Option<Timestamp>, String> {
    let members = said.as_object().ok_or_else(|| format!("`enforcement.{layer}` is no object"))?;
    if let Some(odd) = members.keys().find(|key| !matches!(key.as_str(), "mode" | "until")) {
        return Err(format!("unknown member `enforcement.{layer}.{odd}`"));
    }
    match (said.get("mode").and_then(Json::as_str), said.get("until")) {
        (Some("enforce"), None) => Ok(None),
        (Some("enforce"), Some(_)) => {
            Err(format!("`enforcement.{layer}`: `until` belongs to mode `observe`"))
        }
        (Some("observe"), Some(until)) => instant(until).map(Some).ok_or_else(|| {
            format!("`enforcement.{layer}.until` is a UTC time (`2026-12-20T00:00:00Z`)")
        }),
        (Some("observe"), None) => {
            Err(format!("`enforcement.{layer}`: mode `observe` needs `until`"))
        }
        (Some(_) | None, _) => Err(format!("`enforcement.{layer}.mode` is `observe` or `enforce`")),
    }
}

/// A UTC time as `bundle.json` writes it.
pub(super) fn instant(value: &Json) -> Option<Timestamp> {
    let text = value.as_str().filter(|text| text.ends_with('Z'))?;
    let parsed = text.parse::<jiff::Timestamp>().ok()?;
    Some(Timestamp::from_millis(parsed.as_millisecond()))
}
