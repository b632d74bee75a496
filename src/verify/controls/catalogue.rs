//! Which material supports which requirement: the whole mapping, in our own phrasing.
//!
//! Short names of requirements are those of the frameworks: the AICPA trust services criteria
//! (2017), ISO/IEC 42001:2023 annex A, Regulation (EU) 2024/1689, NIST AI 100-1, and the OWASP Top
//! 10 for agentic applications (2026). ASI05 and ASI06 have no row, because this version records
//! nothing about them.

use super::Need;

/// One line of the mapping.
pub(super) struct ControlRow {
    pub(super) framework: &'static str,
    pub(super) requirement: &'static str,
    pub(super) about: &'static str,
    pub(super) supports: &'static str,
    pub(super) need: Need,
}

const fn row(
    (framework, requirement): (&'static str, &'static str),
    about: &'static str,
    supports: &'static str,
    need: Need,
) -> ControlRow {
    ControlRow { framework, requirement, about, supports, need }
}

const SOC: &str = "SOC 2";
const ISO: &str = "ISO/IEC 42001";
const ACT: &str = "EU AI Act";
const RMF: &str = "NIST AI RMF";
const ASI: &str = "OWASP Agentic";

/// What no bundle shows, framework by framework.
pub(super) const NOT_SHOWN: [(&str, &str); 5] = [
    (
        SOC,
        "who may reach the machines, networks and keys of the gate; how people are hired, trained and reviewed; backups, \
         vendors, physical security; whether the controls worked over a whole period rather than in the calls shown",
    ),
    (
        ISO,
        "the management system itself: its policy, roles, risk and impact assessments, internal audits and reviews; where \
         training data came from; how the model was built",
    ),
    (
        ACT,
        "whether the system is of high risk; conformity assessment, technical documentation, data governance, accuracy and \
         robustness; whether the people who oversaw it were competent; how long logs are kept after the bundle was made",
    ),
    (
        RMF,
        "context, intended use and impact on people; fairness, safety and validity of a model's output; what an organisation \
         does about the risks that it finds",
    ),
    (
        ASI,
        "what a model thought; actions that never passed the gate; unexpected execution of code within an agent (ASI05) and its \
         memory (ASI06), about which this version records nothing",
    ),
];

/// The mapping, framework by framework.
pub(super) const ALL: [ControlRow; 36] = [
    row(
        (SOC, "CC6.1"),
        "access to systems and information is restricted",
        "a decision precedes the end of each call shown, and the bytes of the policy that made it are here",
        Need::DecidedByPolicy,
    ),
    row(
        (SOC, "CC6.1"),
        "access to systems and information is restricted",
        "who asked, and how they were known, is recorded for every run",
        Need::Callers,
    ),
    row(
        (SOC, "CC6.3"),
        "access follows roles and least privilege",
        "the manifest names every tool the agent may use; the run names its digest, and its signature is beside it",
        Need::Manifest,
    ),
    row(
        (SOC, "CC6.6"),
        "access from outside the boundary is held off",
        "calls were refused, each with the rule or the limit that refused it",
        Need::Refused,
    ),
    row(
        (SOC, "CC6.7"),
        "movement of information is restricted",
        "what had to be taken out of answers before they were passed on is named with each decision",
        Need::Redaction,
    ),
    row(
        (SOC, "CC6.8"),
        "unauthorised software is kept out",
        "each call names the digest of the tool definition it was judged by",
        Need::Definitions,
    ),
    row(
        (SOC, "CC7.2"),
        "systems are watched for anomalies",
        "the entries shown are in a log whose numbering and links would show a gap between them",
        Need::Entries,
    ),
    row(
        (SOC, "CC7.3"),
        "security events are evaluated",
        "refusals can be read one by one, with rule, reasons and time",
        Need::Refused,
    ),
    row(
        (SOC, "CC7.4"),
        "incidents are responded to",
        "inputs and outputs of each call, as far as they are disclosed, let an incident be followed step by step",
        Need::Calls,
    ),
    row(
        (SOC, "CC8.1"),
        "changes are authorised and controlled",
        "policies, manifests and tools in force are named by digest, and each change of them is an entry",
        Need::Changes,
    ),
    row(
        (ISO, "A.6.2.6"),
        "operation and monitoring of the system",
        "each call, its decision and its end are recorded as they happen",
        Need::Calls,
    ),
    row(
        (ISO, "A.6.2.6"),
        "operation and monitoring of the system",
        "signs of life between the entries show when the gate was at work",
        Need::Heartbeats,
    ),
    row(
        (ISO, "A.6.2.8"),
        "event logs are kept while the system is in use",
        "a call's decision precedes its end in the log, in one order",
        Need::Entries,
    ),
    row(
        (ISO, "A.9.4"),
        "the system is used as intended",
        "the manifest names tools, model and limits, and the run names its digest",
        Need::Manifest,
    ),
    row(
        (ACT, "Art. 12(1)"),
        "events are recorded automatically over the lifetime of the system",
        "events of runs are entries of a log; one that is left out of a sealed run would show",
        Need::Entries,
    ),
    row(
        (ACT, "Art. 12(2)"),
        "records let risks be found and operation be monitored",
        "refusals are recorded with rule and reasons",
        Need::Refused,
    ),
    row(
        (ACT, "Art. 12(2)"),
        "records let risks be found and operation be monitored",
        "failures, unknown ends and limits reached are recorded",
        Need::Trouble,
    ),
    row(
        (ACT, "Art. 19(1)"),
        "logs are kept for as long as they must be",
        "the log names its beginning and how many entries it holds; how long it is kept on is not shown here",
        Need::Kept,
    ),
    row(
        (ACT, "Art. 19(1)"),
        "logs are kept for as long as they must be",
        "erasures, holds and prunings are recorded themselves",
        Need::Retention,
    ),
    row(
        (ACT, "Art. 26(2)"),
        "people oversee the use of the system",
        "calls that had to wait for a person are recorded with what became of them",
        Need::Held,
    ),
    row(
        (ACT, "Art. 26(5)"),
        "the deployer monitors operation",
        "each call with inputs and outputs, as far as they are disclosed",
        Need::Calls,
    ),
    row(
        (ACT, "Art. 26(6)"),
        "the deployer keeps the logs",
        "the log names its beginning and how many entries it holds; how long it is kept on is not shown here",
        Need::Kept,
    ),
    row(
        (RMF, "GOVERN 1.4"),
        "risk is managed by transparent policies and controls",
        "the policy's exact bytes are here; a refusal names the rule it follows from, an allow the policy",
        Need::DecidedByPolicy,
    ),
    row(
        (RMF, "MEASURE 2.4"),
        "behaviour is monitored in production",
        "each call, its decision and its end are recorded as they happen",
        Need::Calls,
    ),
    row(
        (RMF, "MEASURE 2.8"),
        "accountability and transparency are documented",
        "the record is complete for what it covers, and a reader can check that",
        Need::Complete,
    ),
    row(
        (RMF, "MEASURE 2.8"),
        "accountability and transparency are documented",
        "other parties signed heads of the tenant's fleet log; whether their keys are trusted is for the reader",
        Need::Witnessed,
    ),
    row(
        (RMF, "MANAGE 2.4"),
        "a system can be overridden or disengaged",
        "calls were refused, and have no start after that",
        Need::Refused,
    ),
    row(
        (RMF, "MANAGE 4.1"),
        "systems are monitored after deployment",
        "failures, unknown ends and limits reached are recorded",
        Need::Trouble,
    ),
    row(
        (ASI, "ASI01"),
        "agent goal hijack",
        "calls that manifest, limits or policy did not allow were refused, and are named",
        Need::Refused,
    ),
    row(
        (ASI, "ASI02"),
        "tool misuse and exploitation",
        "the decision about each call is bound to the digest of its arguments",
        Need::DecidedByPolicy,
    ),
    row(
        (ASI, "ASI03"),
        "identity and privilege abuse",
        "who asked, and how they were known, is recorded for every run",
        Need::Callers,
    ),
    row(
        (ASI, "ASI04"),
        "agentic supply chain vulnerabilities",
        "each call names the digest of the tool definition it was judged by",
        Need::Definitions,
    ),
    row(
        (ASI, "ASI07"),
        "insecure inter-agent communication",
        "runs name the run that began them",
        Need::Parents,
    ),
    row(
        (ASI, "ASI08"),
        "cascading failures",
        "failures, unknown ends and limits reached are recorded",
        Need::Trouble,
    ),
    row(
        (ASI, "ASI09"),
        "human-agent trust exploitation",
        "calls that had to wait for a person are recorded with what became of them",
        Need::Held,
    ),
    row(
        (ASI, "ASI10"),
        "rogue agents",
        "the record is complete for what it covers: no entry of it is left out",
        Need::Complete,
    ),
];
