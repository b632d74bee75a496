//! The builtins a policy may call: pure, and with bounds on output and time.
//!
//! Absent, on purpose: clocks, time zones, randomness, network, environment, `trace` and `print`,
//! ranges and expansions, shifts and units (numbers without bound), schema and template matching.

use super::alike;
use super::bounds::{self, Check};

/// One admitted builtin.
#[derive(Debug)]
pub(super) struct Builtin {
    /// Its name in Rego.
    pub name: &'static str,
    /// How many arguments it takes.
    pub arity: usize,
    /// The check before it runs, where its output or its work can exceed its input.
    pub check: Option<Check>,
}

const fn free(name: &'static str, arity: usize) -> Builtin {
    Builtin { name, arity, check: None }
}

const fn bounded(name: &'static str, arity: usize, check: Check) -> Builtin {
    Builtin { name, arity, check: Some(check) }
}

/// Every admitted builtin, by name.
pub(super) const ADMITTED: &[Builtin] = &[
    free("abs", 1),
    bounded("array.concat", 2, bounds::items),
    free("array.reverse", 1),
    bounded("array.slice", 3, alike::whole),
    free("base64.decode", 1),
    bounded("base64.encode", 1, bounds::doubled),
    bounded("base64.is_valid", 1, alike::base64_text),
    free("base64url.decode", 1),
    bounded("base64url.encode", 1, bounds::doubled),
    bounded("base64url.encode_no_pad", 1, bounds::doubled),
    free("bits.and", 2),
    free("bits.negate", 1),
    free("bits.or", 2),
    free("bits.rsh", 2),
    free("bits.xor", 2),
    bounded("ceil", 1, alike::rounded),
    bounded("concat", 2, bounds::concat),
    free("contains", 2),
    free("count", 1),
    free("endswith", 2),
    bounded("floor", 1, alike::rounded),
    bounded("format_int", 2, bounds::whole_number),
    bounded("glob.match", 3, bounds::glob),
    bounded("glob.quote_meta", 1, bounds::quoted),
    free("hex.decode", 1),
    bounded("hex.encode", 1, bounds::doubled),
    bounded("indexof", 2, bounds::sought),
    bounded("indexof_n", 2, bounds::positions),
    bounded("intersection", 1, bounds::tree),
    free("is_array", 1),
    free("is_boolean", 1),
    free("is_null", 1),
    free("is_number", 1),
    free("is_object", 1),
    free("is_set", 1),
    free("is_string", 1),
    bounded("json.filter", 2, bounds::paths),
    bounded("json.is_valid", 1, alike::json_text),
    bounded("json.marshal", 1, bounds::marshal),
    bounded("json.remove", 2, bounds::paths),
    bounded("json.unmarshal", 1, bounds::number_text),
    bounded("lower", 1, bounds::lower),
    bounded("max", 1, bounds::tree),
    bounded("min", 1, bounds::tree),
    bounded("net.cidr_contains", 2, alike::addresses),
    free("net.cidr_is_valid", 1),
    bounded("object.filter", 2, bounds::tree),
    free("object.get", 3),
    free("object.keys", 1),
    bounded("object.remove", 2, bounds::tree),
    bounded("object.subset", 2, bounds::subset),
    bounded("object.union", 2, bounds::joined),
    bounded("object.union_n", 1, bounds::joined),
    bounded("product", 1, alike::product),
    bounded("regex.find_all_string_submatch_n", 3, bounds::regex_pieces),
    bounded("regex.find_n", 3, bounds::regex_pieces),
    bounded("regex.is_valid", 1, bounds::regex),
    bounded("regex.match", 2, bounds::regex),
    bounded("regex.replace", 3, bounds::regex_replace),
    bounded("regex.split", 2, bounds::regex_pieces),
    free("round", 1),
    free("semver.compare", 2),
    bounded("semver.is_valid", 1, alike::version),
    bounded("sort", 1, bounds::tree),
    bounded("split", 2, bounds::split),
    bounded("sprintf", 2, bounds::sprintf),
    free("startswith", 2),
    bounded("strings.any_prefix_match", 2, bounds::pairs),
    bounded("strings.any_suffix_match", 2, bounds::pairs),
    bounded("strings.count", 2, bounds::counted),
    bounded("strings.replace_n", 2, bounds::replace_n),
    free("strings.reverse", 1),
    bounded("replace", 3, bounds::replace),
    bounded("substring", 3, alike::whole),
    bounded("sum", 1, alike::sum),
    free("time.parse_duration_ns", 1),
    bounded("time.parse_rfc3339_ns", 1, alike::instant),
    bounded("to_number", 1, bounds::numeral),
    bounded("trim", 2, bounds::work),
    bounded("trim_left", 2, bounds::work),
    free("trim_prefix", 2),
    bounded("trim_right", 2, bounds::work),
    free("trim_space", 1),
    free("trim_suffix", 2),
    free("type_name", 1),
    bounded("union", 1, bounds::nested_items),
    bounded("upper", 1, bounds::upper),
];

/// The admitted builtin of this name.
pub(super) fn admitted(name: &str) -> Option<&'static Builtin> {
    ADMITTED.iter().find(|builtin| builtin.name == name)
}

/// What is wrong with a literal `sprintf` format, if anything: a small width and a plain verb only.
pub(super) fn format_fault(format: &str) -> Option<&'static str> {
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            continue;
        }
        let mut digits = 0_u32;
        while let Some(c) = chars.next_if(|c| c.is_numeric() || *c == '.') {
            if !c.is_ascii() {
                return Some("a width is written in ASCII digits");
            }
            digits = digits.saturating_add(u32::from(c != '.'));
        }
        if digits > 2 {
            return Some("a width has at most two digits");
        }
        if !chars.next().is_some_and(|verb| "%svdxXftqboc".contains(verb)) {
            return Some("unknown format verb");
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_admitted_builtin_exists_in_the_engine_with_this_arity() {
        for builtin in ADMITTED {
            let (_, arity) = regorus::unstable::BUILTINS
                .get(builtin.name)
                .unwrap_or_else(|| panic!("`{}` is no builtin", builtin.name));
            assert_eq!(usize::from(*arity), builtin.arity, "{}", builtin.name);
        }
    }

    /// Policy authors read `policies/BUILTINS.md`, and OPA's list is compared with it.
    #[test]
    fn the_documented_list_is_the_admitted_one() {
        let text = include_str!("../../policies/BUILTINS.md");
        let rows = text.lines().filter(|line| line.starts_with("| `"));
        let documented: Vec<String> = rows.map(str::to_owned).collect();
        let row = |b: &Builtin| {
            let how = if b.check.is_some() { "bounded" } else { "" };
            format!("| `{}` | {} | {how} |", b.name, b.arity)
        };
        let mut admitted: Vec<String> = ADMITTED.iter().map(row).collect();
        admitted.sort();
        let mut documented = documented;
        documented.sort();
        assert_eq!(documented, admitted);
    }

    #[test]
    fn what_reads_a_clock_or_the_world_or_has_no_bound_is_not_admitted() {
        for name in [
            "time.now_ns",
            "time.clock",
            "time.weekday",
            "rand.intn",
            "trace",
            "print",
            "http.send",
            "opa.runtime",
            "uuid.rfc4122",
            "numbers.range",
            "numbers.range_step",
            "net.cidr_expand",
            "bits.lsh",
            "units.parse",
            "rego.parse_module",
            "graph.reachable",
            "walk",
            "regex.template_match",
        ] {
            assert!(admitted(name).is_none(), "{name}");
        }
    }

    #[test]
    fn a_format_with_a_huge_width_or_an_unknown_verb_is_refused() {
        assert!(format_fault("%0999999999d").is_some());
        assert!(format_fault("%y").is_some() && format_fault("%").is_some());
        // OPA writes exponents in its own way.
        assert!(format_fault("%e").is_some() && format_fault("%.2g").is_some());
        assert!(format_fault("100%% of %s at %.2f, %05d").is_none());
    }
}
