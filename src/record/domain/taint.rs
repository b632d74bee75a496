//! Taint: what a tool may bring into a run and carry out of it, and the labels of a run.

use super::closed::closed;
use super::id::{CallId, RunId};

closed! {
    /// What the results of a run held so far.
    pub enum Label {
        /// Data about people, as the firewall found it.
        Personal = "personal",
        /// Data that is not public, from a tool that has such data.
        Private = "private",
        /// A secret, as the firewall found it.
        Secret = "secret",
        /// What others than the operator may have written.
        Untrusted = "untrusted",
    }
}

closed! {
    /// Whether the answers of a tool may hold what others than the operator wrote.
    #[derive(Default)]
    pub enum Trust {
        /// The operator vouches for every answer.
        Trusted = "trusted",
        /// Others may have written a part of an answer.
        #[default]
        Untrusted = "untrusted",
    }
}

closed! {
    /// Whether the answers of a tool may hold data that is not public.
    #[derive(Default)]
    pub enum Exposure {
        /// Every answer is public.
        Public = "public",
        /// An answer may hold private data.
        #[default]
        Private = "private",
    }
}

closed! {
    /// Where the arguments of a tool can get to.
    #[derive(Default)]
    pub enum Egress {
        /// They stay within what the operator runs.
        Inside = "inside",
        /// They may leave it.
        #[default]
        Outside = "outside",
    }
}

closed! {
    /// What the gate does about a call of a labelled run, from the mildest to the strictest.
    pub enum FlowAction {
        /// Nothing.
        Off = "off",
        /// The entry of the decision says so.
        Alert = "alert",
        /// The call waits for an approver.
        Approve = "approve",
        /// The call is denied.
        Deny = "deny",
    }
}

closed! {
    /// Why the gate does something about a call of a labelled run.
    pub enum Flow {
        /// The labels alone: the run has them, and nothing that brought them is seen in the call.
        Label = "flow.label",
        /// What brought the labels is in the call, or may be.
        Trifecta = "flow.trifecta",
    }
}

/// The roles of a tool. What is not known counts as the worse.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ToolRoles {
    /// Who may have written its answers.
    pub trust: Trust,
    /// Who may read its answers.
    pub data: Exposure,
    /// Where its arguments can get to.
    pub egress: Egress,
}

impl ToolRoles {
    /// The roles of a tool that brings nothing and carries nothing out.
    pub const NONE: Self =
        Self { trust: Trust::Trusted, data: Exposure::Public, egress: Egress::Inside };

    /// The labels that each of its answers brings.
    pub fn labels(self) -> impl Iterator<Item = Label> {
        let private = (self.data == Exposure::Private).then_some(Label::Private);
        let untrusted = (self.trust == Trust::Untrusted).then_some(Label::Untrusted);
        private.into_iter().chain(untrusted)
    }
}

/// The call whose answer brought a label.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LabelOrigin {
    /// Its run: another one if the label came with a delegation or from an earlier run of the caller.
    pub run: RunId,
    /// The call.
    pub call: CallId,
}

/// A passage of a call that is a copy of what an earlier answer released.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TaintSpan {
    /// JSON pointer of the text with the passage, below the arguments.
    pub path: String,
    /// Where the passage begins in that text: bytes of UTF-8.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// What the answer brought.
    pub label: Label,
    /// The call with that answer.
    pub origin: LabelOrigin,
}

impl Flow {
    /// What happened, in words.
    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::Trifecta => {
                "the run has read untrusted content and private data, and this call would carry some of it outside"
            }
            Self::Label => {
                "the run has read what others than the operator wrote, and this call cannot be undone or leads outside"
            }
        }
    }
}
