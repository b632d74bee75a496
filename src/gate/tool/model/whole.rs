//! An answer of a model in one piece.

use std::collections::BTreeMap;

use hyper::body::Incoming;

use super::ModelUpstream;
use super::answered::{down, expect};
use super::broken::Broken;
use super::exchange::{Exchange, is_cut};
use super::hold_back::HoldsCredential;
use super::masking::EventMask;
use super::proposed::Proposed;
use crate::catalog::llm::answer::{self, AnswerError, Assembled};
use crate::domain::dialect::Operation;
use crate::domain::json::{Json, Limits};
use crate::ledger::flow::{Clearance, Flow};
use crate::tool::net::{BodyError, Pace, whole};

impl Exchange<'_> {
    /// An answer in one piece, as it is released.
    pub async fn whole(
        &self,
        place: &ModelUpstream,
        response: http::Response<Incoming>,
        mut flow: Flow<'_>,
    ) -> Result<(Vec<u8>, bool), Broken> {
        expect(response.headers(), "application/json")?;
        let (status, headers) = (response.status().as_u16(), down(response.headers(), self.scrub));
        let most = self.model.result_bytes_max;
        let (head, stretch) = (self.face.head_timeout, self.face.silence_timeout);
        let pace = Some(Pace { head, stretch, bytes_min: 1 });
        let body = whole(response.into_body(), most, pace).await.map_err(|why| match why {
            BodyError::TooLarge => Broken::TooMuch(most),
            BodyError::Slow => Broken::Silent(stretch),
            BodyError::Broken(_) => Broken::Lost,
        })?;
        let assembled = match self.ready.operation {
            Operation::CountTokens => {
                let counted = Json::parse(&body, &Limits::MODEL);
                counted.map_err(|error| AnswerError::NotJson(error.code))?;
                self.uses(self.nothing(place));
                flow.head((status, false), headers).await?;
                return Ok((body, false));
            }
            Operation::Generate => self.judged(&body, &mut flow).await?,
        };
        self.ended(place, &assembled);
        flow.head((status, false), headers).await?;
        let cut = is_cut(&assembled.stop);
        Ok((assembled.json, cut))
    }

    /// A whole answer after its tool calls were judged. It is masked once its outcome is there; what
    /// its tool calls leave with, before.
    async fn judged(&self, body: &[u8], flow: &mut Flow<'_>) -> Result<Assembled, Broken> {
        let mut answer = answer::whole(self.ready.dialect, body, self.rules(false))?;
        let mut mask = EventMask::of(self.ready.dialect, self.permit.obligations())?;
        let calls = answer.calls().to_vec();
        let asked = self.proposed(&calls, mask.as_mut())?;
        let cleared = flow.propose(asked.iter().map(Proposed::asked).collect()).await?;
        for (asked, clearance) in asked.iter().zip(cleared) {
            let index = asked.call.index;
            match clearance {
                Clearance::Allowed(cleared) => {
                    match self.leaves(asked, &cleared, mask.as_mut())? {
                        Some(arguments) => answer.allow_with(index, &arguments)?,
                        None => answer.allow(index)?,
                    }
                }
                Clearance::Denied(denied) => {
                    answer.deny(index, &self.denied(asked.call, &denied)?)?;
                }
                Clearance::Undecided => return Err(Broken::Undecided),
            }
        }
        let assembled = answer.finish()?;
        let json = Json::parse(&assembled.json, &Limits::MODEL);
        let json = json.map_err(|error| AnswerError::NotJson(error.code))?;
        self.joined(&answer::texts_by_kind(&json), mask.as_ref())?;
        let Some(mask) = mask else { return Ok(assembled) };
        Ok(Assembled { json: mask.without_tokens(assembled.json), ..assembled })
    }

    /// Looks through what a client puts together of the texts of a whole answer.
    fn joined(&self, texts: &[(&str, &str)], mask: Option<&EventMask>) -> Result<(), Broken> {
        let mut kinds: BTreeMap<&str, String> = BTreeMap::new();
        for &(kind, text) in texts {
            kinds.entry(kind).or_default().push_str(text);
        }
        // As in a stream: also what stands in texts of several kinds, one behind the other.
        let all: String = texts.iter().map(|(_, text)| *text).collect();
        if kinds.values().chain([&all]).any(|text| self.scrub.holds(text)) {
            return Err(HoldsCredential.into());
        }
        Ok(mask.map_or(Ok(()), |mask| mask.joined(texts))?)
    }
}
