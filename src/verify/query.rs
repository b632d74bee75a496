//! The query of a bundle, in the terms of statements, entries and `population.json`.

use serde::Deserialize;

use super::scope::{Scope, Span};
use crate::domain::decision::Verdict;
use crate::domain::id::{RunId, Seq};
use crate::domain::json::Json;
use crate::domain::time::Timestamp;
use crate::record::List;
use crate::record::run::Setting;

/// One query to a ledger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Query {
    /// Everything of one run.
    Run(RunId),
    /// Every entry of a span of one log.
    Range {
        /// The log's name.
        log: String,
        /// The entries.
        span: Span,
    },
    /// Every entry of every chain in a span of time, and the decisions that match.
    Population(Filter),
}

/// Which part of a tenant's chains, and which decisions in it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
pub struct Filter {
    /// Entries of this time and later.
    pub since: Option<Timestamp>,
    /// Entries before this time.
    pub until: Option<Timestamp>,
    /// Decisions in runs of this agent.
    pub agent: Option<String>,
    /// Decisions about this tool.
    pub tool: Option<String>,
    /// Decisions of this verdict.
    pub verdict: Option<Verdict>,
    /// Only these logs; empty: every chain the ledger has.
    #[serde(default)]
    pub chains: Vec<String>,
}

impl Filter {
    /// Whether it filters the decisions themselves, and not only the time and the chains.
    #[must_use]
    pub const fn picks(&self) -> bool {
        self.agent.is_some() || self.tool.is_some() || self.verdict.is_some()
    }
}

impl Query {
    /// How far it reaches.
    pub const fn scope(&self) -> Scope {
        match self {
            Self::Run(_) => Scope::Run,
            Self::Range { .. } => Scope::Range,
            Self::Population(_) => Scope::Population,
        }
    }

    /// Its fields: `scope` first, then the filters.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![("scope", self.scope().as_str().to_owned())];
        match self {
            Self::Run(run) => fields.push(("run", run.to_string())),
            Self::Range { log, span } => {
                fields.push(("log", log.clone()));
                fields.push(("from", span.from.to_string()));
                fields.push(("to", span.to.to_string()));
            }
            Self::Population(filter) => {
                fields.extend(filter.since.map(|at| ("since", at.to_string())));
                fields.extend(filter.until.map(|at| ("until", at.to_string())));
                fields.extend(filter.agent.clone().map(|agent| ("agent", agent)));
                fields.extend(filter.tool.clone().map(|tool| ("tool", tool)));
                fields.extend(filter.verdict.map(|v| ("verdict", v.as_str().to_owned())));
                fields.extend(filter.chains.iter().map(|chain| ("chain", chain.clone())));
            }
        }
        fields
    }

    /// As `query` of an `evidence.exported` entry.
    pub fn settings(&self) -> List<Setting> {
        self.fields().into_iter().map(|(k, v)| Setting::of(k, v)).collect()
    }

    /// As `query` of `population.json`.
    pub fn to_json(&self) -> Json {
        let mut members: Vec<(&'static str, Json)> = Vec::new();
        let mut chains: Vec<Json> = Vec::new();
        for (k, v) in self.fields() {
            match (k, v.parse::<u64>()) {
                ("chain", _) => chains.push(Json::from(v)),
                ("from" | "to", Ok(number)) => members.push((k, Json::from(number))),
                (_, _) => members.push((k, Json::from(v))),
            }
        }
        members.extend((!chains.is_empty()).then(|| ("chains", chains.into())));
        Json::object(members)
    }

    /// Parses exactly what [`Self::to_json`] wrote.
    #[must_use]
    pub fn from_json(json: &Json) -> Option<Self> {
        let query = match json.read().ok()? {
            QueryForm::Run { run } => Self::Run(run),
            QueryForm::Range { log, from, to } => Self::Range { log, span: Span { from, to } },
            QueryForm::Population(filter) => Self::Population(filter),
        };
        // Any member that was not read makes another text.
        (query.to_json() == *json).then_some(query)
    }
}

/// The members of a query by its scope.
#[derive(Deserialize)]
#[serde(tag = "scope", rename_all = "snake_case")]
enum QueryForm {
    Run { run: RunId },
    Range { log: String, from: Seq, to: Seq },
    Population(Filter),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_back_exactly_or_not_at_all() {
        let filter = Filter {
            since: Timestamp::parse("2026-11-01T00:00:00.000Z"),
            until: None,
            agent: Some("reviewer".into()),
            tool: None,
            verdict: Some(Verdict::Deny),
            chains: vec!["a".into(), "b".into()],
        };
        let queries = [
            Query::Run(RunId::from_random([7; 16])),
            Query::Range { log: "l".into(), span: Span { from: 3, to: 9 } },
            Query::Population(filter),
            Query::Population(Filter::default()),
        ];
        for query in queries {
            assert_eq!(Query::from_json(&query.to_json()), Some(query.clone()));
            let mut other = query.to_json();
            if let Json::Object(members) = &mut other {
                members.insert("surprise".into(), Json::from(true));
            }
            assert_eq!(Query::from_json(&other), None);
        }
    }
}
