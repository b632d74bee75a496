//! The report in the form that build servers read (JUnit XML).

use super::{Case, Outcome, Report};
use crate::domain::xml::escaped;

/// One `testsuite` per bundle, in one document.
pub fn junit(reports: &[Report]) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for report in reports {
        text.push_str(&format!(
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n",
            escaped(&report.bundle),
            report.cases.len(),
            report.count(Outcome::Failed),
            report.count(Outcome::Error),
            report.count(Outcome::Skipped),
        ));
        report.cases.iter().for_each(|case| text.push_str(&one(case)));
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

fn one(case: &Case) -> String {
    let (class, name) = case
        .name
        .rsplit_once('.')
        .filter(|_| !case.name.contains(": "))
        .unwrap_or_else(|| case.name.split_once(": ").unwrap_or(("", &case.name)));
    let (file, line) = case.place.rsplit_once(':').unwrap_or((&case.place, ""));
    let line = if line.is_empty() { String::new() } else { format!(" line=\"{}\"", escaped(line)) };
    let open = format!(
        "    <testcase classname=\"{}\" name=\"{}\" file=\"{}\"{line}",
        escaped(class),
        escaped(name),
        escaped(file)
    );
    let tag = match case.outcome {
        Outcome::Passed => return format!("{open}/>\n"),
        Outcome::Skipped => return format!("{open}><skipped/></testcase>\n"),
        Outcome::Failed => "failure",
        Outcome::Error => "error",
    };
    let (message, details) = (escaped(&case.message), escaped(&case.details.join("\n")));
    format!("{open}>\n      <{tag} message=\"{message}\">{details}</{tag}>\n    </testcase>\n")
}
