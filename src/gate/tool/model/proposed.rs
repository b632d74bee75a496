//! The tool calls of an answer, with the arguments under which they are judged, recorded and shown to
//! the agent.

use super::broken::Broken;
use super::exchange::Exchange;
use super::masking::EventMask;
use crate::catalog::llm::answer::AnsweredCall;
use crate::firewall::Unmaskable;
use crate::ledger::flow::{Cleared, ProposedCall};

/// A tool call of an answer.
#[derive(Debug)]
pub(super) struct Proposed<'a> {
    /// The call as the model wrote it.
    pub call: &'a AnsweredCall,
    /// Its arguments without what the policy masks, if it masks something in them.
    masked: Option<String>,
}

impl Proposed<'_> {
    /// What is asked of the road: the call as it leaves.
    pub fn asked(&self) -> ProposedCall {
        let AnsweredCall { index, id, name, arguments, custom } = self.call;
        ProposedCall {
            index: u64::try_from(*index).unwrap_or(u64::MAX),
            id: id.clone(),
            name: name.clone(),
            arguments: self.masked.as_ref().unwrap_or(arguments).clone(),
            custom: *custom,
        }
    }
}

impl Exchange<'_> {
    /// The tool calls to be judged. WHY masked before: the agent makes the call with the arguments that
    /// leave, so these are judged, and these are on record.
    ///
    /// # Errors
    /// Something in them must be masked and cannot be.
    pub fn proposed<'a>(
        &self,
        calls: &'a [AnsweredCall],
        mut mask: Option<&mut EventMask>,
    ) -> Result<Vec<Proposed<'a>>, Broken> {
        let mut proposed = Vec::new();
        for call in calls {
            let masked = match &mut mask {
                Some(mask) => mask.arguments(&call.arguments)?,
                None => None,
            };
            proposed.push(Proposed { call, masked });
        }
        if let Some(mask) = mask {
            self.masked(mask.masked());
        }
        Ok(proposed)
    }

    /// The arguments with which an allowed call leaves, if they are not those of the model.
    ///
    /// # Errors
    /// The arguments that were decided must be masked: they would leave otherwise than they are recorded.
    pub fn leaves(
        &self,
        proposed: &Proposed<'_>,
        cleared: &Cleared,
        mask: Option<&mut EventMask>,
    ) -> Result<Option<String>, Broken> {
        let Some(decided) = cleared.arguments() else { return Ok(proposed.masked.clone()) };
        if let Some(mask) = mask
            && mask.arguments(decided)?.is_some()
        {
            return Err(Unmaskable::Endless.into());
        }
        Ok(Some(decided.to_owned()))
    }
}
