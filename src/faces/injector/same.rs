//! Whether two parts of a pod mean the same.
//!
//! Between two calls of a webhook the API server decodes the pod, adds defaults, drops what is empty and writes quantities
//! in another form. A comparison of bytes would take our own gate for a foreign one.

use serde_json::{Map, Value};

/// Members that mean the same as their absence.
const DEFAULTS: [(&str, &str); 19] = [
    ("apiVersion", r#""v1""#),
    ("defaultMode", "420"),
    ("divisor", r#""0""#),
    ("expirationSeconds", "3600"),
    ("failureThreshold", "3"),
    ("initialDelaySeconds", "0"),
    ("optional", "false"),
    ("periodSeconds", "10"),
    ("procMount", r#""Default""#),
    ("protocol", r#""TCP""#),
    ("readOnly", "false"),
    ("scheme", r#""HTTP""#),
    ("stdin", "false"),
    ("stdinOnce", "false"),
    ("successThreshold", "1"),
    ("terminationMessagePath", r#""/dev/termination-log""#),
    ("terminationMessagePolicy", r#""File""#),
    ("timeoutSeconds", "1"),
    ("tty", "false"),
];

/// Members whose value is a map with names of the owner's.
const OWNERS: [&str; 3] = ["volumeAttributes", "labels", "annotations"];

/// Members whose value is a quantity.
const QUANTITIES: [&str; 3] = ["sizeLimit", "divisor", "storage"];

/// Whether `theirs` is `ours` as the API server shows it.
///
/// The policy for pulling an image may differ, because an image by digest is one image. Resources may have more than ours,
/// because a `LimitRange` adds them.
pub(super) fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => same_members(ours, theirs),
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| same(a, b))
        }
        (ours, theirs) => ours == theirs,
    }
}

fn same_members(ours: &Map<String, Value>, theirs: &Map<String, Value>) -> bool {
    let names = ours.keys().chain(theirs.keys().filter(|name| !ours.contains_key(*name)));
    let missing = Value::Null;
    names.into_iter().all(|name| {
        let [a, b] = [ours, theirs].map(|of| of.get(name).unwrap_or(&missing));
        same_member(name, a, b)
    })
}

fn same_member(name: &str, ours: &Value, theirs: &Value) -> bool {
    if name == "imagePullPolicy" || absent(name, ours) && absent(name, theirs) {
        return true;
    }
    if absent(name, ours) || absent(name, theirs) {
        return name == "resources" && absent(name, ours);
    }
    match name {
        "resources" => enough(ours, theirs),
        "httpGet" => same(&without_root(ours), &without_root(theirs)),
        name if OWNERS.contains(&name) => ours == theirs,
        name if QUANTITIES.contains(&name) => same_quantity(ours, theirs),
        _ => same(ours, theirs),
    }
}

/// A request without the path that it has by default. WHY here alone: a directory of the node has a `path` as well.
fn without_root(request: &Value) -> Value {
    let mut request = request.clone();
    if let Some(members) = request.as_object_mut() {
        members.retain(|name, value| name != "path" || value != "/");
    }
    request
}

/// Whether a member with this value means the same as none.
fn absent(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) if text.is_empty() => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => {
            members.is_empty()
                || !OWNERS.contains(&name)
                    && members.iter().all(|(name, value)| absent(name, value))
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let text = value.to_string();
            DEFAULTS.iter().any(|(member, default)| *member == name && text == *default)
        }
    }
}

/// Whether resources have everything of ours.
fn enough(ours: &Value, theirs: &Value) -> bool {
    let of = |value: &Value, kind: &str, name: &str| value.get(kind)?.get(name).cloned();
    let all = |kind: &str| {
        let amounts = ours.get(kind).and_then(Value::as_object);
        amounts.into_iter().flatten().all(|(name, amount)| {
            of(theirs, kind, name).is_some_and(|theirs| same_quantity(amount, &theirs))
        })
    };
    all("limits") && all("requests") && ours.get("claims") == theirs.get("claims")
}

fn same_quantity(ours: &Value, theirs: &Value) -> bool {
    ours == theirs || quantity(ours).is_some_and(|ours| Some(ours) == quantity(theirs))
}

/// A quantity in billionths.
fn quantity(value: &Value) -> Option<i128> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && !".+-".contains(c)).unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(end)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let scaled = digits.checked_mul(1_000_000_000)?.checked_mul(factor(suffix)?)?;
    let places = u32::try_from(fraction.len()).ok()?;
    scaled.checked_div(10_i128.checked_pow(places)?)?.checked_div(fraction_of(suffix))
}

/// By what a suffix multiplies; 1 for one that divides.
fn factor(suffix: &str) -> Option<i128> {
    if let Some(power) = suffix.strip_prefix(['e', 'E']).filter(|power| !power.is_empty()) {
        return 10_i128.checked_pow(power.parse().ok()?);
    }
    let of = |base: i128, suffixes: &[&str]| {
        let power = suffixes.iter().position(|one| *one == suffix)?;
        base.checked_pow(u32::try_from(power).ok()?)
    };
    of(1000, &["", "k", "M", "G", "T", "P", "E"])
        .or_else(|| of(1024, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]))
        .or_else(|| ["m", "u", "n"].contains(&suffix).then_some(1))
}

/// By what a suffix divides.
fn fraction_of(suffix: &str) -> i128 {
    match suffix {
        "m" => 1_000,
        "u" => 1_000_000,
        "n" => 1_000_000_000,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_with_the_defaults_of_the_api_server_is_the_same() {
        let ours = json!({
            "name": "gate", "image": "x", "ports": [{"containerPort": 1}], "resources": {"limits": {"cpu": 1, "memory": "1024Mi"}},
            "env": [{"name": "A", "value": ""}], "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": false}],
            "startupProbe": {"httpGet": {"port": 1, "path": "/"}, "periodSeconds": 1}, "securityContext": {},
        });
        let theirs = json!({
            "name": "gate", "image": "x", "imagePullPolicy": "Always", "ports": [{"containerPort": 1, "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1G"}, "requests": {"cpu": "1000m"}},
            "env": [{"name": "A"}], "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "startupProbe": {"httpGet": {"port": 1, "scheme": "HTTP"}, "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 3},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        });
        assert!(same(&ours, &theirs));
        assert!(same(&theirs, &theirs));
    }

    #[test]
    fn what_another_wrote_is_not_the_same() {
        let ours = json!({"name": "gate", "env": [{"name": "A", "value": "1"}], "resources": {"limits": {"cpu": "1"}},
            "securityContext": {"allowPrivilegeEscalation": false, "runAsUser": 65532}});
        let changes = [
            ("/env/0/value", json!("2")),
            ("/command", json!(["/bin/sh"])),
            ("/envFrom", json!([{"secretRef": {"name": "x"}}])),
            ("/lifecycle", json!({"postStart": {"exec": {"command": ["x"]}}})),
            ("/securityContext/allowPrivilegeEscalation", Value::Null),
            ("/securityContext/runAsUser", json!(0)),
            ("/securityContext/privileged", json!(true)),
            ("/resources/limits/cpu", json!("900m")),
            ("/resources/limits", json!({})),
            ("/volumeMounts", json!([{"name": "x", "mountPath": "/x"}])),
            ("/tty", json!(true)),
        ];
        for (at, value) in changes {
            let mut theirs = ours.clone();
            let (parent, name) = at.rsplit_once('/').unwrap();
            theirs.pointer_mut(parent).unwrap()[name] = value;
            assert!(!same(&ours, &theirs), "{at}");
        }
    }

    #[test]
    fn a_volume_with_the_defaults_of_the_api_server_is_the_same() {
        let pairs = [
            (json!({"name": "a", "emptyDir": {}}), json!({"name": "a"}), true),
            (
                json!({"name": "a", "emptyDir": {"sizeLimit": "2048Mi"}}),
                json!({"name": "a", "emptyDir": {"sizeLimit": "2Gi"}}),
                true,
            ),
            (
                json!({"name": "a", "emptyDir": {"sizeLimit": "2Gi"}}),
                json!({"name": "a", "emptyDir": {}}),
                false,
            ),
            (
                json!({"name": "a", "configMap": {"name": "c"}}),
                json!({"name": "a", "configMap": {"name": "c", "defaultMode": 420}}),
                true,
            ),
            (
                json!({"name": "a", "configMap": {"name": "c"}}),
                json!({"name": "a", "configMap": {"name": "c", "defaultMode": 511}}),
                false,
            ),
            (
                json!({"name": "a", "configMap": {"name": "c"}}),
                json!({"name": "a", "configMap": {"name": "d"}}),
                false,
            ),
            (
                json!({"name": "a", "projected": {"defaultMode": 288, "sources": []}}),
                json!({"name": "a", "projected": {"defaultMode": 288, "sources": null}}),
                true,
            ),
            (
                json!({"name": "a", "emptyDir": {}}),
                json!({"name": "a", "secret": {"secretName": "s"}}),
                false,
            ),
            (
                json!({"name": "a", "emptyDir": {}}),
                json!({"name": "a", "hostPath": {"path": "/"}}),
                false,
            ),
            (
                json!({"name": "a", "csi": {"volumeAttributes": {"protocol": "TCP"}}}),
                json!({"name": "a", "csi": {"volumeAttributes": {}}}),
                false,
            ),
        ];
        for (ours, theirs, expected) in pairs {
            assert_eq!(same(&ours, &theirs), expected, "{ours} {theirs}");
        }
    }

    #[test]
    fn quantities_are_compared_by_their_amount() {
        let equal = [
            ("1", "1000m"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1k"),
            ("100u", "0.1m"),
            ("2E", "2000P"),
            ("0", "0"),
        ];
        for (a, b) in equal {
            assert!(same_quantity(&json!(a), &json!(b)), "{a} {b}");
        }
        for (a, b) in
            [("1", "1m"), ("1Gi", "1G"), ("x", "y"), ("1", "1x"), ("", "0"), ("1e99", "2e99")]
        {
            assert!(!same_quantity(&json!(a), &json!(b)), "{a} {b}");
        }
        assert!(same_quantity(&json!(1), &json!("1")));
    }
}
