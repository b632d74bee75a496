//! The firewall alone: clean text as it is written, and as a recipient would decode it.

use wicketgate::domain::json::Json;
use wicketgate::firewall::findings;
use wicketgate_support::bench::load::short;
use wicketgate_support::bench::table::{Row, Table, Target};

use crate::Plan;
use crate::decide::repeat;

/// Bytes of one text.
const BYTES: usize = 64 * 1024;
/// What is aimed at, bytes per second and core.
const AIM: f64 = 50e6;

/// Text of this length that holds nothing which is looked for, from different lines.
fn text(line: impl Fn(usize) -> String) -> Json {
    let mut text = String::with_capacity(BYTES + 200);
    for n in 0.. {
        if text.len() >= BYTES {
            break;
        }
        text.push_str(&line(n));
    }
    text.truncate(BYTES);
    let value = Json::from(text.as_str());
    assert_eq!(findings(&value), Vec::new(), "clean text");
    value
}

/// Prints the rows about text that is let through, one thread.
pub fn measure(plan: &Plan, table: &mut Table) {
    let words =
        ["order", "ship", "the", "parcel", "later", "because", "stock", "is", "low", "today"];
    let prose = |n: usize| {
        let word = |k: usize| words[(n * 7 + k * 3 + n / 10) % words.len()];
        let sentence: Vec<&str> = (0..12).map(word).collect();
        format!("{}.\n", sentence.join(" "))
    };
    let encoded = |n: usize| format!("a%20{} &amp; b\\u0020{}", words[n % words.len()], prose(n));
    for (name, value) in
        [("clean prose", text(prose)), ("the same with escapes in each line", text(encoded))]
    {
        let seen = repeat(plan.each, || drop(std::hint::black_box(findings(&value))));
        let speed = BYTES as f64 / seen.p50.as_secs_f64();
        let p99 = seen.p99.as_secs_f64() * 1e3;
        table.add(Row {
            what: format!("firewall, all views, {name}, 64 KiB, one thread"),
            ours: format!("{:.1} MB/s at p50", speed / 1e6),
            floor: format!("{:.0} MB/s", AIM / 1e6),
            ratio: Some(speed / AIM),
            target: Some(Target::AtLeast(1.0)),
        });
        table.add(Row {
            what: format!("firewall, {name}, 64 KiB: p99"),
            ours: short(seen.p99),
            floor: String::new(),
            ratio: None,
            target: Some(Target::Figure(p99, 2.0, "ms")),
        });
    }
}
