//! A table of the input document: the paths that exist and their values.
//!
//! `input.rs` builds the document; a test below compares the two, so that it finds a member added
//! only there. The members of effects are in `effect.rs`.

use crate::domain::effect::ToolKind;
use crate::domain::facts::{Confidence, FindingAge, How};
use crate::domain::taint::{Egress, FlowAction, Label};
use crate::effect;
use crate::firewall::Class;
use crate::record::approval::KeyKind;

/// The values at one place of the input.
#[derive(Debug, PartialEq)]
pub(crate) enum Shape {
    /// Anything: arguments are the tool's, labels are the agent's.
    Open,
    /// Any text.
    Text,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A number.
    Number,
    /// `true` or `false`.
    Flag,
    /// An object of texts under arbitrary names.
    Texts,
    /// A list of these.
    List(&'static Shape),
    /// These members and no others.
    Object(&'static [Member]),
    /// What a call would touch: the members of its kind of effect.
    Effect,
}

impl Shape {
    /// The members at this place; only an object has some.
    pub(crate) fn members(&'static self) -> Box<dyn Iterator<Item = &'static Member>> {
        match self {
            Self::Object(members) => Box::new(members.iter()),
            Self::Effect => Box::new(effect::all_members()),
            Self::Open
            | Self::Text
            | Self::OneOf(_)
            | Self::Number
            | Self::Flag
            | Self::Texts
            | Self::List(_) => Box::new(std::iter::empty()),
        }
    }
}

/// One member of an object.
#[derive(Debug, PartialEq)]
pub(crate) struct Member {
    pub name: &'static str,
    pub shape: Shape,
    /// Whether every input has it; an effect has only those of its kind.
    pub always: bool,
}

/// One step of a path: a name, or a bracket with a computed value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PathStep<'a> {
    Name(&'a str),
    Any,
}

/// What a path of the input leads to.
#[derive(Debug, PartialEq)]
pub(crate) enum InputTarget {
    /// Nothing, ever: the step of this index has no such member; this one is near.
    Never { at: usize, near: Option<&'static str> },
    /// This. `always`: in every input.
    There { shape: &'static Shape, always: bool },
    /// It depends on the call.
    Unknown,
}

pub(crate) const fn has(name: &'static str, shape: Shape) -> Member {
    Member { name, shape, always: true }
}

pub(crate) const fn may(name: &'static str, shape: Shape) -> Member {
    Member { name, shape, always: false }
}

const LAYERS: Shape = Shape::OneOf(&["org", "team", "agent"]);
/// The classes of findings.
const CLASSES: &[&str] = &[
    Class::Secret.as_str(),
    Class::Personal.as_str(),
    Class::Injection.as_str(),
    Class::Unicode.as_str(),
    Class::Unscanned.as_str(),
];
const WEEKDAYS: &[&str] =
    &["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

const LABEL: Shape = Shape::OneOf(Label::TEXTS);
const ACTION: Shape = Shape::OneOf(FlowAction::TEXTS);
/// What the run has read, and what of that is in the call.
const TAINT: Shape = Shape::Object(&[
    has("egress", Shape::OneOf(Egress::TEXTS)),
    has("floor", Shape::Object(&[has("label_only", ACTION), has("trifecta", ACTION)])),
    has(
        "influence",
        Shape::Object(&[
            has("private", Shape::Number),
            has("unknown", Shape::Flag),
            has("untrusted", Shape::Number),
        ]),
    ),
    has("labels", Shape::List(&LABEL)),
    has(
        "since",
        Shape::Object(&[
            may("personal", Shape::Text),
            may("private", Shape::Text),
            may("secret", Shape::Text),
            may("untrusted", Shape::Text),
        ]),
    ),
    has("trifecta", Shape::Flag),
    has("trifecta_influenced", Shape::Flag),
]);

/// The whole document.
pub(crate) static INPUT: Shape = Shape::Object(&[
    has("v", Shape::OneOf(&[crate::input::VERSION])),
    has(
        "agent",
        Shape::Object(&[
            has("id", Shape::Text),
            has("version", Shape::Text),
            has("owner", Shape::Text),
            has("labels", Shape::Texts),
            has("manifest", Shape::Text),
            has("binding", Shape::OneOf(&["unclaimed", "claimed", "observed"])),
            has("tier3", Shape::OneOf(&["unclaimed", "claimed", "observed"])),
            has(
                "delegation",
                Shape::List(&Shape::Object(&[
                    has("id", Shape::Text),
                    has("version", Shape::Text),
                    has("manifest", Shape::Text),
                    has("run", Shape::Text),
                ])),
            ),
        ]),
    ),
    has(
        "run",
        Shape::Object(&[
            has("id", Shape::Text),
            has("mode", Shape::OneOf(&["enforce", "simulate"])),
            has("incognito", Shape::Flag),
            has("opened_at", Shape::Text),
            has("calls", Shape::Number),
            has("errors", Shape::Number),
            has("cost", Shape::Number),
            has("labels", Shape::Texts),
        ]),
    ),
    has(
        "tool",
        Shape::Object(&[
            has("name", Shape::Text),
            has("kind", Shape::OneOf(ToolKind::TEXTS)),
            has("tier", Shape::OneOf(&["T0", "T1", "T2", "T3"])),
            has("read_only", Shape::Flag),
            has("definition", Shape::Text),
            may(
                "trust",
                Shape::Object(&[
                    has("calls", Shape::Number),
                    has("days", Shape::Number),
                    has("rated", Shape::Flag),
                    has("score", Shape::Number),
                    has("through", Shape::Number),
                    has("well", Shape::Number),
                    has("window", Shape::Number),
                ]),
            ),
        ]),
    ),
    has("call", Shape::Object(&[has("id", Shape::Text)])),
    has("args", Shape::Open),
    has("effect", Shape::Effect),
    has("context", Shape::Object(&[has("attested", Shape::Texts), has("claimed", Shape::Texts)])),
    has(
        "time",
        Shape::Object(&[
            has("rfc3339", Shape::Text),
            has("unix", Shape::Number),
            has("weekday", Shape::OneOf(WEEKDAYS)),
            has("hour", Shape::Number),
            has("minute", Shape::Number),
            has("tz", Shape::OneOf(&["UTC"])),
        ]),
    ),
    has(
        "findings",
        Shape::List(&Shape::Object(&[
            may("class", Shape::OneOf(CLASSES)),
            may("confidence", Shape::OneOf(Confidence::TEXTS)),
            may("how", Shape::OneOf(How::TEXTS)),
            has("kind", Shape::Text),
            may("mark", Shape::Text),
            has("path", Shape::Text),
            may("since", Shape::OneOf(FindingAge::TEXTS)),
        ])),
    ),
    has(
        "firewall",
        Shape::Object(&[
            has("complete", Shape::Flag),
            has("masked", Shape::Flag),
            has("rules", Shape::Text),
        ]),
    ),
    has(
        "approvals",
        Shape::List(&Shape::Object(&[
            has("approver", Shape::Text),
            has("roles", Shape::List(&Shape::Text)),
            has("key", Shape::Text),
            may("key_kind", Shape::OneOf(KeyKind::TEXTS)),
        ])),
    ),
    has("quorum", Shape::Object(&[has("by_hand", Shape::List(&LAYERS))])),
    has(
        "break_glass",
        Shape::Object(&[
            has("open", Shape::Flag),
            has("nonce", Shape::Text),
            has("until", Shape::Text),
            has("by", Shape::List(&Shape::Text)),
        ]),
    ),
    has(
        "pools",
        Shape::List(&Shape::Object(&[
            has("name", Shape::Text),
            has("unit", Shape::OneOf(&["requests", "cost_micro_usd", "concurrency"])),
            has("left_permille", Shape::Number),
            has("size", Shape::Number),
        ])),
    ),
    has("observe", Shape::List(&LAYERS)),
    has("taint", TAINT),
    has(
        "history",
        Shape::Object(&[
            has("calls", Shape::Number),
            has("errors", Shape::Number),
            has("denied", Shape::Number),
        ]),
    ),
]);

/// Follows a path below `input`.
pub(crate) fn find(steps: &[PathStep<'_>]) -> InputTarget {
    below(&INPUT, steps)
}

/// The target of a path that begins at a place of this shape, which the input has.
pub(crate) fn below(shape: &'static Shape, steps: &[PathStep<'_>]) -> InputTarget {
    let (mut shape, mut always) = (shape, true);
    for (at, step) in steps.iter().enumerate() {
        let never = |near| InputTarget::Never { at, near };
        shape = match (shape, step) {
            (Shape::Object(_) | Shape::Effect, PathStep::Name(name)) => {
                let members: Vec<_> = shape.members().collect();
                let Some(member) = members.iter().find(|member| member.name == *name) else {
                    return never(nearest(name, &members));
                };
                always &= member.always;
                &member.shape
            }
            (Shape::List(item), PathStep::Any) => {
                always = false;
                item
            }
            (Shape::Texts, _) => {
                always = false;
                &Shape::Text
            }
            (Shape::Object(_) | Shape::Effect, PathStep::Any) | (Shape::Open, _) => {
                return InputTarget::Unknown;
            }
            // A list has indexes, and a scalar has no members.
            (Shape::List(_), PathStep::Name(_)) => return never(None),
            (Shape::Text | Shape::OneOf(_) | Shape::Number | Shape::Flag, _) => return never(None),
        };
    }
    InputTarget::There { shape, always }
}

/// The member with the most similar name, if it is similar enough.
fn nearest(name: &str, members: &[&'static Member]) -> Option<&'static str> {
    let near = members
        .iter()
        .map(|member| (crate::domain::near::changes(name, member.name), member.name))
        .min()?;
    (near.0 <= (near.1.len() / 2).min(2)).then_some(near.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_what_the_document_holds_or_to_nothing() {
        let names = |path: &'static str| path.split('.').map(PathStep::Name).collect::<Vec<_>>();
        let there = |shape, always| InputTarget::There { shape, always };
        assert_eq!(find(&names("tool.read_only")), there(&Shape::Flag, true));
        assert_eq!(find(&names("effect.host")), there(&Shape::Text, false));
        assert_eq!(find(&names("agent.labels.team")), there(&Shape::Text, false));
        assert_eq!(find(&names("args.anything.at_all")), InputTarget::Unknown);
        let list = [PathStep::Name("findings"), PathStep::Any, PathStep::Name("kind")];
        assert_eq!(find(&list), there(&Shape::Text, false));
        assert_eq!(find(&names("findings.kind")), InputTarget::Never { at: 1, near: None });
        assert_eq!(find(&names("tool.naem")), InputTarget::Never { at: 1, near: Some("name") });
        assert_eq!(find(&names("tol.name")), InputTarget::Never { at: 0, near: Some("tool") });
        assert_eq!(find(&names("tool.name.x")), InputTarget::Never { at: 2, near: None });
        assert_eq!(find(&names("tool.zzzzzzz")), InputTarget::Never { at: 1, near: None });
    }
}
