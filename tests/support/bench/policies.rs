//! The policy bundles that benches decide by.

use std::path::Path;

/// One rule.
pub const SMALL: &[(&str, &str)] = &[("agent/main.rego", include_str!("small.rego"))];
/// Fifteen rules in three layers.
pub const FIFTEEN: &[(&str, &str)] = &[
    ("org/main.rego", include_str!("fifteen_org.rego")),
    ("team/main.rego", include_str!("fifteen_team.rego")),
    ("agent/main.rego", include_str!("fifteen_agent.rego")),
];

/// The metadata of a bundle.
pub const META: (&str, &str) = ("bundle.json", r#"{"name":"bench","version":"1.0.0"}"#);

/// Writes a bundle's directory.
pub fn write(dir: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let (name, text) = META;
    std::fs::write(dir.join(name), text).unwrap();
}
