//! The style sheet, the icon and the modules, named by their own digest: a browser keeps them, and never an old one.

use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};

use super::ROOT;
use crate::domain::digest::Digest;

const CSS: &str = "text/css; charset=utf-8";
const SVG: &str = "image/svg+xml";
const JS: &str = "text/javascript; charset=utf-8";

/// The style sheet.
pub(super) const STYLE: &str = "style.css";
/// What a browser shows beside the title.
pub(super) const ICON: &str = "icon.svg";
/// The modules that each page loads.
pub(super) const MODULES: [&str; 4] = ["copy.js", "keys.js", "live.js", "times.js"];

/// The module of the pages where a passkey is made or signs.
pub(super) const SIGN: &str = "sign.js";

/// One file.
struct Asset {
    name: &'static str,
    kind: &'static str,
    text: &'static str,
    digest: String,
}

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let all = [
        (STYLE, CSS, include_str!("../../../../web/style.css")),
        (ICON, SVG, include_str!("../../../../web/icon.svg")),
        ("copy.js", JS, include_str!("../../../../web/copy.js")),
        ("keys.js", JS, include_str!("../../../../web/keys.js")),
        ("live.js", JS, include_str!("../../../../web/live.js")),
        (SIGN, JS, include_str!("../../../../web/sign.js")),
        ("times.js", JS, include_str!("../../../../web/times.js")),
    ];
    let digest = |text: &str| Digest::of(&[text.as_bytes()]).hex();
    all.map(|(name, kind, text)| Asset { name, kind, text, digest: digest(text) }).into()
});

/// Where a page finds the file.
pub(super) fn path(name: &str) -> String {
    let digest = ASSETS.iter().find(|asset| asset.name == name).map(|asset| &*asset.digest);
    format!("{ROOT}/static/{}/{name}", digest.unwrap_or_default())
}

/// The file with this digest and name. It holds no data, so that it needs no session.
pub(super) async fn serve(Path((digest, name)): Path<(String, String)>) -> Response {
    let found = ASSETS.iter().find(|asset| asset.name == name && asset.digest == digest);
    let Some(asset) = found else { return StatusCode::NOT_FOUND.into_response() };
    let keep = HeaderValue::from_static("public, max-age=31536000, immutable");
    let headers = [(CONTENT_TYPE, HeaderValue::from_static(asset.kind)), (CACHE_CONTROL, keep)];
    (headers, Body::from(asset.text)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_pages_name_is_there() {
        for name in MODULES.into_iter().chain([STYLE, ICON, SIGN]) {
            assert_eq!(path(name).split('/').nth(3).map(str::len), Some(64), "{name}");
        }
        assert_eq!(ASSETS.len(), MODULES.len() + 3);
    }

    #[test]
    fn modules_make_no_markup_and_are_small() {
        for asset in ASSETS.iter() {
            for word in ["innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("] {
                assert!(!asset.text.contains(word), "{}: {word}", asset.name);
            }
        }
        assert!(ASSETS.iter().map(|asset| asset.text.len()).sum::<usize>() <= 25 * 1024);
    }
}
