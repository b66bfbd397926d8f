//! The files of the pages, which are part of the binary.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Name, media type and content of each file.
const FILES: &[(&str, &str, &str)] = &[
    ("dashboard.css", "text/css; charset=utf-8", include_str!("assets/dashboard.css")),
    ("dashboard.js", SCRIPT, include_str!("assets/dashboard.js")),
    ("forms.js", SCRIPT, include_str!("assets/forms.js")),
    ("graph.js", SCRIPT, include_str!("assets/graph.js")),
    ("keys.js", SCRIPT, include_str!("assets/keys.js")),
    ("live.js", SCRIPT, include_str!("assets/live.js")),
    ("morph.js", SCRIPT, include_str!("assets/morph.js")),
    ("times.js", SCRIPT, include_str!("assets/times.js")),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];

/// `GET /assets/NAME`.
pub(super) async fn asset(Path(name): Path<String>) -> Response {
    match FILES.iter().find(|(known, ..)| *known == name) {
        Some((_, media, text)) => {
            ([(header::CONTENT_TYPE, *media), (header::CACHE_CONTROL, "no-cache")], *text).into_response()
        }
        None => (StatusCode::NOT_FOUND, "there is no such file\n").into_response(),
    }
}
