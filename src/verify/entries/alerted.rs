//! Every alert follows at once on the entry that caused it.

use super::read::{Damage, EntryLine};
use crate::domain::id::{CallId, RunId, Seq};
use crate::record::Kind;
use crate::record::alert::{AlertKind, AlertRaised};

/// An entry that may cause alerts.
#[derive(Clone, Debug)]
struct AlertCause {
    seq: Seq,
    run: Option<RunId>,
    call: Option<CallId>,
    denies: bool,
    /// Whether it decides or ends a call, or may: its kind is not known here.
    judges: bool,
}

/// The newest entry that is no alert.
#[derive(Clone, Debug, Default)]
pub struct AlertCauses {
    last: Option<AlertCause>,
}

impl AlertCause {
    fn of(line: &EntryLine) -> Self {
        let (draft, kind) = (&line.entry.draft, line.entry.draft.kind());
        let unknown = line.unknown.is_some();
        Self {
            seq: line.entry.seq,
            run: draft.run,
            call: draft.call.clone(),
            denies: unknown || kind == Kind::CallDenied,
            judges: unknown || kind.decides() || kind.ends_call(),
        }
    }

    /// Whether it can have caused this alert.
    fn causes(&self, alert: &AlertRaised) -> bool {
        let kind = match alert.alert {
            AlertKind::BurstDenial | AlertKind::RepeatedDenial => self.denies,
            AlertKind::PathTraversal
            | AlertKind::SqlInjection
            | AlertKind::SecretEgress
            | AlertKind::OwnCredential
            | AlertKind::PromptInjection
            | AlertKind::Trifecta
            | AlertKind::UnscannedBurst
            | AlertKind::TrustDrop
            | AlertKind::FlowLabel => self.judges,
        };
        kind && self.seq == alert.last.get() && self.run == alert.run && self.call == alert.call
    }
}

impl AlertCauses {
    /// Takes the next entry. `from`: the first entry that is read; what came before is not known.
    ///
    /// # Errors
    /// `S2`: an alert whose cause is another entry, or none.
    pub fn accept(&mut self, line: &EntryLine, from: Seq) -> Result<(), Damage> {
        let Some(alert) = line.get::<AlertRaised>() else {
            self.last = Some(AlertCause::of(line));
            return Ok(());
        };
        let (seq, first, last) = (line.entry.seq, alert.first.get(), alert.last.get());
        let counts = first <= last && last < seq && alert.since <= line.entry.ts;
        // What no call of a run caused has no entry of its own.
        let caused = match (&self.last, alert.run) {
            (_, None) => true,
            (Some(cause), Some(_)) => cause.causes(alert) || cause.seq < from,
            (None, Some(_)) => last < from,
        };
        if counts && caused {
            return Ok(());
        }
        let why = format!("alert `{}` does not follow on its cause, entry {last}", alert.alert);
        Err(Damage::new("S2", why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::digest::Digest;
    use crate::domain::id::ChainId;
    use crate::domain::time::Timestamp;
    use crate::record::{Boot, Draft, Entry, RunLink};
    use wicketgate_record::sample::body;

    fn run(of: u8) -> RunId {
        RunId::from_random([of; 16])
    }

    fn line(seq: Seq, draft: Draft) -> EntryLine {
        let entry = Entry {
            chain: ChainId::from_bytes([1; 16]),
            epoch: 1,
            seq,
            prev: Digest::of(&[b"before"]),
            ts: Timestamp::from_millis(5),
            boot: Boot::from_random([0; 4]),
            mono: 1,
            run: draft.run.map(|run| RunLink { run, seq, prev: Some(Digest::of(&[b"x"])) }),
            draft,
        };
        let unknown = None;
        EntryLine { bytes: entry.bytes(), leaf: Entry::leaf(&entry.bytes()), entry, unknown }
    }

    fn cause(seq: Seq, kind: Kind) -> EntryLine {
        let call = CallId::parse("c");
        line(seq, Draft { run: Some(run(7)), call, ..Draft::of(body(kind, [])) })
    }

    /// An alert of this kind at this place that names this cause.
    fn alert(
        seq: Seq,
        kind: AlertKind,
        (of, call): (u8, &str),
        (first, last): (u64, u64),
    ) -> EntryLine {
        let data = AlertRaised {
            agent: "a".into(),
            alert: kind,
            call: CallId::parse(call),
            count: 1_u64.into(),
            first: first.into(),
            last: last.into(),
            mark: None,
            run: Some(run(of)),
            severity: kind.severity(),
            since: Timestamp::from_millis(5),
            tool: None,
        };
        line(seq, Draft::of(data))
    }

    fn read(lines: &[EntryLine], from: Seq) -> Result<(), Damage> {
        let mut causes = AlertCauses::default();
        lines.iter().try_for_each(|line| causes.accept(line, from))
    }

    #[test]
    fn an_alert_that_does_not_follow_on_its_cause_is_refused() {
        use AlertKind::{BurstDenial, PathTraversal};
        let denied = || cause(4, Kind::CallDenied);
        let right = |seq| alert(seq, PathTraversal, (7, "c"), (4, 4));
        let burst = |seq| alert(seq, BurstDenial, (7, "c"), (1, 4));
        assert_eq!(read(&[denied(), right(5), burst(6)], 0), Ok(()));
        let other = cause(5, Kind::CallCompleted);
        let wrong = [
            vec![right(5)],
            vec![denied(), other.clone(), right(6)],
            vec![denied(), alert(5, PathTraversal, (8, "c"), (4, 4))],
            vec![denied(), alert(5, PathTraversal, (7, "d"), (4, 4))],
            vec![denied(), alert(5, PathTraversal, (7, "c"), (4, 3))],
            vec![denied(), alert(5, PathTraversal, (7, "c"), (5, 5))],
            vec![other.clone(), alert(6, BurstDenial, (7, "c"), (5, 5))],
            vec![cause(4, Kind::CallProgress), right(5)],
        ];
        for lines in wrong {
            let damage = read(&lines, 0).unwrap_err();
            assert_eq!(damage.check, "S2", "{lines:?}");
        }
        // What came before the first entry that is read is not known.
        assert_eq!(read(&[right(5)], 5), Ok(()));
        assert_eq!(read(&[other, alert(6, PathTraversal, (7, "c"), (5, 5))], 0), Ok(()));
    }
}
