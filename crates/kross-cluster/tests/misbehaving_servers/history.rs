//! Servers that end the watch early which tells whether an object existed.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::Response;
use http_body::Frame;
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;

use crate::server::{Body, Server, config_map, event, object};

/// A watch that sends this text, and ends after this time.
fn watch(text: String, lasts: Duration) -> Body {
    let text = stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from(text)))]);
    let end = stream::once(tokio::time::sleep(lasts)).filter_map(|()| std::future::ready(None));
    UnsyncBoxBody::new(StreamBody::new(text.chain(end)))
}

async fn existed(text: &'static str, lasts: Duration) -> Result<bool, String> {
    let server = Server::plain(move |_| Response::new(watch(text.to_owned(), lasts))).await;
    let client = server.connect().await;
    let existed = client.existed_since(&config_map(), (Some("shop"), "backup"), "5", |_| true).await;
    existed.map_err(|error| error.message().to_owned())
}

#[tokio::test]
async fn a_watch_that_ends_early_does_not_prove_that_an_object_never_existed() {
    let second = Duration::from_secs(1);
    assert_eq!(existed("", second).await, Ok(false));
    for (text, lasts) in [("", Duration::ZERO), ("<html>Welcome</html>", second), ("{\"type\":", second)] {
        let error = existed(text, lasts).await.unwrap_err();
        assert!(error.contains("the watch ended early and proves nothing"), "{text}: {error}");
    }
    let deleted = format!("{}\n", event("DELETED", &object("backup", 7))).leak();
    assert_eq!(existed(deleted, Duration::ZERO).await, Ok(true));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_goes_on_for_ever_is_given_up_although_every_line_arrives_in_time() {
    let server = Server::plain(|_| {
        // Ends after a while, so that the test does if the client does not give up.
        let lines = stream::iter(0..100).then(|_| async {
            tokio::time::sleep(Duration::from_secs(4)).await;
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"\n")))
        });
        Response::new(UnsyncBoxBody::new(StreamBody::new(lines)))
    })
    .await;
    let client = server.connect().await;
    let began = tokio::time::Instant::now();
    let error =
        client.existed_since(&config_map(), (Some("shop"), "backup"), "5", |_| true).await.unwrap_err();
    assert_eq!(error.message(), "the API server does not end the watch");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}
