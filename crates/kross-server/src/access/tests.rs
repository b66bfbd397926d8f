use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, to_bytes};
use axum::routing::{get, put};
use futures::FutureExt;
use serde_json::Value;
use tower::ServiceExt;

use super::*;

/// An API server that knows three tokens, and lets one user read `/metrics`.
#[derive(Clone, Default)]
struct Hub {
    tokens: Arc<AtomicUsize>,
    accesses: Arc<AtomicUsize>,
}

impl Hub {
    fn access(&self) -> AccessControl {
        let hub = self.clone();
        AccessControl::new(move |path, body| {
            let answer = hub.answer(path, &serde_json::from_slice(&body).unwrap());
            async move { answer.map(|answer| Bytes::from(answer.to_string())) }.boxed()
        })
    }

    fn answer(&self, path: &str, review: &Value) -> Result<Value, ReviewError> {
        let spec = &review["spec"];
        if path == TOKEN_REVIEWS {
            self.tokens.fetch_add(1, Ordering::Relaxed);
            return match spec["token"].as_str().unwrap() {
                "prometheus" => Ok(json!({"status": {"authenticated": true,
                    "user": {"username": "prometheus", "groups": ["scrapers"], "extra": {"pod": ["p"]}}}})),
                "somebody" => {
                    Ok(json!({"status": {"authenticated": true, "user": {"username": "somebody"}}}))
                }
                "nameless" => {
                    Ok(json!({"status": {"authenticated": true, "user": {"groups": ["scrapers"]}}}))
                }
                "nonsense" => Ok(json!(["nothing"])),
                "outage" => Err(ReviewError("no answer".to_owned())),
                _ => Ok(json!({"status": {"user": {"username": "prometheus"}, "error": "expired"}})),
            };
        }
        self.accesses.fetch_add(1, Ordering::Relaxed);
        assert_eq!(spec.get("resourceAttributes"), None);
        let allowed = spec["groups"][0] == "scrapers" && spec["extra"]["pod"][0] == "p";
        let attributes = &spec["nonResourceAttributes"];
        let allowed = allowed && attributes["path"] == "/metrics" && attributes["verb"] == "get";
        Ok(json!({"status": {"allowed": allowed}}))
    }
}

fn pages(access: &AccessControl) -> Router {
    let pages = Router::new().route("/metrics", get(async || "metrics").post(async || "posted"));
    access.protect(pages.route("/loglevel", put(async || "set")))
}

async fn ask(pages: &Router, method: &str, path: &str, authorization: &str) -> (u16, String) {
    let request = Request::builder().method(method).uri(path).header("authorization", authorization);
    let response = pages.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn answers_are_those_of_controller_runtime() {
    let pages = pages(&Hub::default().access());
    let long = format!("Bearer {}", "x".repeat(MAX_TOKEN_BYTES + 1));
    for (method, path, authorization, status, text) in [
        ("GET", "/metrics", "Bearer prometheus", 200, "metrics"),
        ("GET", "/metrics", "bearer prometheus", 200, "metrics"),
        ("GET", "/metrics", "", 401, "Unauthorized\n"),
        ("GET", "/metrics", "Bearer ", 401, "Unauthorized\n"),
        ("GET", "/metrics", "Basic prometheus", 401, "Unauthorized\n"),
        ("GET", "/metrics", "Bearer expired", 401, "Unauthorized\n"),
        ("GET", "/metrics", "Bearer nameless", 401, "Unauthorized\n"),
        ("GET", "/metrics", &long, 401, "Unauthorized\n"),
        // Unknown paths tell nobody what exists.
        ("GET", "/unknown", "", 401, "Unauthorized\n"),
        ("GET", "/metrics", "Bearer somebody", 403, "Authorization denied for user somebody\n"),
        ("POST", "/metrics", "Bearer prometheus", 403, "Authorization denied for user prometheus\n"),
        ("PUT", "/loglevel", "Bearer prometheus", 403, "Authorization denied for user prometheus\n"),
        ("GET", "/metrics", "Bearer outage", 500, "Authentication failed\n"),
        ("GET", "/metrics", "Bearer nonsense", 500, "Authentication failed\n"),
    ] {
        let answer = ask(&pages, method, path, authorization).await;
        assert_eq!(answer, (status, text.to_owned()), "{method} {path} {authorization}");
    }
}

#[tokio::test(start_paused = true)]
async fn decisions_are_kept_for_a_minute_and_refusals_for_ten_seconds() {
    let hub = Hub::default();
    let pages = pages(&hub.access());
    let ask = async |token: &str| {
        ask(&pages, "GET", "/metrics", &format!("Bearer {token}")).await;
        (hub.tokens.load(Ordering::Relaxed), hub.accesses.load(Ordering::Relaxed))
    };
    assert_eq!(ask("prometheus").await, (1, 1));
    assert_eq!(ask("prometheus").await, (1, 1));
    assert_eq!(ask("unknown").await, (2, 1));
    assert_eq!(ask("unknown").await, (2, 1));
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!(ask("unknown").await, (3, 1));
    assert_eq!(ask("prometheus").await, (3, 1));
    tokio::time::advance(Duration::from_secs(50)).await;
    assert_eq!(ask("prometheus").await, (4, 2));
}

#[tokio::test]
async fn unknown_tokens_do_not_push_out_known_ones() {
    let hub = Hub::default();
    let pages = pages(&hub.access());
    ask(&pages, "GET", "/metrics", "Bearer prometheus").await;
    for number in 0..MAX_DECISIONS + 10 {
        ask(&pages, "GET", "/metrics", &format!("Bearer {number}")).await;
    }
    let before = hub.tokens.load(Ordering::Relaxed);
    assert_eq!(ask(&pages, "GET", "/metrics", "Bearer prometheus").await.0, 200);
    assert_eq!(hub.tokens.load(Ordering::Relaxed), before);
}

/// Counts reviews that wait for an answer, and the most that waited at once.
#[derive(Clone, Default)]
struct Waiting(Arc<Mutex<(usize, usize)>>);

impl Waiting {
    fn begin(&self) -> Self {
        let mut counts = self.0.lock();
        counts.0 += 1;
        counts.1 = counts.1.max(counts.0);
        self.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_admits_nobody() {
    struct End(Waiting);
    impl Drop for End {
        fn drop(&mut self) {
            self.0.0.lock().0 -= 1;
        }
    }
    let waiting = Waiting::default();
    let counted = waiting.clone();
    let access = AccessControl::new(move |_, _| {
        let end = End(counted.begin());
        async move {
            let _end = end;
            std::future::pending().await
        }
        .boxed()
    });
    let pages = pages(&access);
    let requests = (0..50).map(|number| {
        let pages = &pages;
        async move { ask(pages, "GET", "/metrics", &format!("Bearer {number}")).await }
    });
    for answer in futures::future::join_all(requests).await {
        assert_eq!(answer, (500, "Authentication failed\n".to_owned()));
    }
    assert_eq!(*waiting.0.lock(), (0, MAX_REVIEWS), "few reviews wait for the API server at once");
}
