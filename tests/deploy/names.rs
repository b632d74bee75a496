//! Names that files of `deploy/` use and the program defines.

use std::collections::BTreeSet;

use regex::Regex;
use wicketgate::telemetry::metrics::Metrics;

use crate::top;

fn named(text: &str) -> BTreeSet<String> {
    let metric = Regex::new(r"\bwicketgate_[a-z_]+").unwrap();
    metric.find_iter(text).map(|seen| seen.as_str().to_owned()).collect()
}

#[test]
fn every_metric_an_alert_asks_for_is_one_the_program_exports() {
    let metrics = Metrics::new([], "1", "source");
    // A family is exported once something was counted.
    metrics.ledger_error("conflict");
    metrics.self_tested(false);
    metrics.upstream_drift("breaking");
    metrics.call("tool", "deny", false);
    let exported = named(&metrics.text().unwrap());
    let rules = std::fs::read_to_string(top("deploy/helm/wicketgate/rules.yaml")).unwrap();
    let asked: BTreeSet<_> =
        rules.lines().filter(|line| line.contains("expr:")).flat_map(named).collect();
    assert!(asked.len() >= 7, "{asked:?}");
    let unknown: Vec<_> = asked.difference(&exported).collect();
    assert!(unknown.is_empty(), "{unknown:?} are not among {exported:?}");
}
