//! Trust in tools, and held calls that people decide alike: projections of the ledger.

use super::api::standing::{
    PatternCall, PatternLack, PatternLine, Patterns, TrustFall, TrustLine, TrustScores,
};
use super::api::{OperatorRequest, route};
use super::{OperatorApi, Problem};
use crate::domain::time::Timestamp;
use crate::evidence::holds::{self, HoldReport};
use crate::evidence::scores::ScoreReader;
use crate::policy::learn::{DecidedHold, HoldPattern, PatternGap};
use crate::record::trust::{TrustDrop, TrustScore, TrustSubject, TrustWindow};

/// Entries that one request reads.
const READ_MAX: u64 = 200_000;
/// Calls of a pattern in an answer.
const CALLS_MAX: usize = 20;

impl OperatorApi {
    /// Which calls the scores are about. The first call counts; later ones change nothing.
    pub fn score_within(&self, window: TrustWindow) {
        self.score_window.set(window).unwrap_or_default();
    }

    /// The trust in every tool that was called.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(super) async fn trust(
        &self,
        _: OperatorRequest<route::Trust>,
    ) -> Result<TrustScores, Problem> {
        let mut scores = self.scores.lock().await;
        scores.read_on(&*self.reader, Some(&self.tenant), READ_MAX).await?;
        let window = self.score_window.get().copied().unwrap_or_default();
        Ok(trust_scores(&scores, window, self.clock.now()))
    }

    /// What people decide alike.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(super) async fn patterns(
        &self,
        _: OperatorRequest<route::Patterns>,
    ) -> Result<Patterns, Problem> {
        let from = (&*self.reader, self.vault.as_deref());
        let found = holds::patterns(from, Some(&self.tenant), (self.clock.now(), READ_MAX)).await;
        found.map(pattern_lines).map_err(|why| self.refuse(super::exports::unavailable(&why)))
    }
}

/// The scores as the API answers with them.
pub fn trust_scores(read: &ScoreReader, window: TrustWindow, now: Timestamp) -> TrustScores {
    let line = |TrustScore { subject, count, first, last, replaced }: TrustScore| {
        let TrustSubject { tool, definition, agent } = subject;
        TrustLine {
            tool,
            definition: definition.prefixed(),
            replaced,
            agent,
            calls: count.calls,
            well: count.well,
            score: count.score(),
            first: first.to_string(),
            last: last.to_string(),
        }
    };
    let fall = |TrustDrop { subject, from, to, since }: TrustDrop| {
        let TrustSubject { tool, definition, agent } = subject;
        let (definition, since) = (definition.prefixed(), since.to_string());
        TrustFall { tool, definition, agent, from, to, since }
    };
    TrustScores {
        scores: read.fold().scores(window, now).into_iter().map(line).collect(),
        drops: read.fold().trust_drops(window, now).into_iter().map(fall).collect(),
        window: window.calls,
        days: window.days,
        as_of: now.to_string(),
        behind: read.behind(),
    }
}

/// The patterns as the API answers with them.
pub fn pattern_lines(HoldReport { found, unread }: HoldReport) -> Patterns {
    let lack = |PatternGap { agent, tool, decisions, why }: PatternGap| PatternLack {
        agent,
        tool,
        decisions: count(decisions),
        why,
    };
    Patterns {
        patterns: found.patterns.iter().map(pattern_line).collect(),
        more: count(found.more),
        lacking: found.gaps.into_iter().map(lack).collect(),
        unread,
    }
}

fn pattern_line(pattern: &HoldPattern) -> PatternLine {
    let call = |hold: &DecidedHold| PatternCall {
        chain: hold.chain.to_string(),
        seq: hold.seq,
        run: hold.run.to_string(),
        call: hold.call.to_string(),
        at: hold.at.to_string(),
    };
    let (first, last) = pattern.span().map(|(a, b)| (a.to_string(), b.to_string())).unzip();
    PatternLine {
        id: pattern.id.clone(),
        agent: pattern.agent.clone(),
        tool: pattern.tool.clone(),
        definition: pattern.definition.prefixed(),
        rules: pattern.rules.iter().cloned().collect(),
        decision: if pattern.approved { "approve" } else { "refuse" }.to_owned(),
        decisions: count(pattern.holds.len()),
        people: pattern.people.iter().cloned().collect(),
        first: first.unwrap_or_default(),
        last: last.unwrap_or_default(),
        until: pattern.until.to_string(),
        calls: pattern.holds.iter().rev().take(CALLS_MAX).map(call).collect(),
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
