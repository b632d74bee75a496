//! The firewall alone: clean text as it is written, and as a recipient would decode it.

use std::time::Instant;

use wicketgate::domain::json::Json;
use wicketgate::firewall::{findings, scan};
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
    let logged = |n: usize| {
        let (day, part) = (n % 28 + 1, n * 7919 % 1_000_000);
        format!(
            "2026-11-{day:02}T22:25:24.{part:06}Z INFO GET /api/v1/items/{n} 200 from 10.0.0.{day}\n"
        )
    };
    let listed = |n: usize| {
        let (id, price) = (n % 1000, n * 7919 % 1000);
        format!(
            "{{\"id\": {id}, \"name\": \"item {id}\", \"price\": {price}.99, \"tags\": [\"a\", \"b\"]}},\n"
        )
    };
    let coded = |n: usize| {
        let (name, kind) = (words[n % words.len()], words[n * 3 % words.len()]);
        format!(
            "    let {name}_{n} = self.{kind}.iter().map(|one| one.{name}(&HttpResponse::of({n})));\n"
        )
    };
    for (name, value) in [
        ("clean prose", text(prose)),
        ("the same with escapes in each line", text(encoded)),
        ("lines of a log", text(logged)),
        ("lines of JSON", text(listed)),
        ("lines of a program", text(coded)),
    ] {
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
    hostile(table);
}

/// What costs the most to look through, over and over.
const HOSTILE: [(&str, &str); 14] = [
    ("one letter", "a"),
    ("cards that are none", "4111 1111 1111 1112 "),
    ("digits apart", "1 "),
    ("prefixes", "ghp_"),
    ("beginnings of tokens", "eyJhbGciOiJIUzI1NiJ9.e30."),
    ("beginnings of addresses", "a@"),
    ("escapes of escapes", "%2541"),
    ("names of secrets", "password=abc123def456 "),
    ("base64", "TWFueJh"),
    ("base32", "MFRGGZDF"),
    ("pairs of digits", "67:"),
    ("lists of numbers", "97, "),
    ("accounts that are none", "DE89 3704 0044 0532 0130 01 "),
    ("letters with nothing between", "g\u{200b}"),
];
/// Bytes of a hostile text.
const HOSTILE_BYTES: usize = 1 << 20;

/// The time for the slowest of these, and how it grows with the text.
fn hostile(table: &mut Table) {
    let time = |part: &str, bytes: usize| {
        let text = part.repeat(bytes.div_ceil(part.len()));
        let value = Json::from(text.as_str());
        let began = Instant::now();
        drop(std::hint::black_box(scan(&value)));
        began.elapsed()
    };
    for (name, part) in HOSTILE {
        let all = [4, 2, 1].map(|share| time(part, HOSTILE_BYTES / share));
        let [quarter, half, whole] = all.map(|one| one.as_secs_f64() * 1e3);
        table.add(Row {
            what: format!("firewall, 1 MiB of {name}"),
            ours: format!("{whole:.0} ms; of a half {half:.0}, of a quarter {quarter:.0}"),
            floor: String::new(),
            ratio: None,
            target: Some(Target::Figure(whole, 100.0, "ms")),
        });
    }
}
