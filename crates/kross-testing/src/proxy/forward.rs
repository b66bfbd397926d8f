//! Forwards a client's request to the API server, after applying the fault and the first rule that matches.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Response, Uri, Version, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use tokio::sync::Notify;

use super::request::Request;
use super::request_log::Record;
use super::rules::{Action, Answer};
use super::virtual_cluster;
use super::{Diverted, Fault, Shared};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type AnswerBody = BoxBody<Bytes, BoxError>;

/// How often a held request checks whether its rule was removed.
const HOLD_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// How many connections are kept that carry no request: after thousands of requests at once there would be as many.
const MAX_IDLE: usize = 64;

/// Hop-by-hop headers, which are not forwarded.
const CONNECTION_HEADERS: [HeaderName; 5] =
    [header::CONNECTION, header::HOST, header::TE, header::TRANSFER_ENCODING, header::UPGRADE];

/// A client of the API server with one identity. It uses HTTP/1.1, since with HTTP/2 the proxy's clients would share one
/// connection and its limit of concurrent streams.
#[derive(Clone, Debug)]
pub(super) struct Upstream {
    client: Client<HttpsConnector<HttpConnector>, Incoming>,
    authority: Authority,
}

impl Upstream {
    pub(super) fn new(config: ClientConfig, authority: Authority) -> Self {
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http1().build();
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(MAX_IDLE)
            .build(connector);
        Self { client, authority }
    }

    async fn forward(&self, mut request: http::Request<Incoming>) -> Result<Response<Incoming>, BoxError> {
        let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        *request.uri_mut() = Uri::builder()
            .scheme(Scheme::HTTPS)
            .authority(self.authority.clone())
            .path_and_query(path)
            .build()?;
        *request.version_mut() = Version::HTTP_11;
        strip(request.headers_mut());
        let mut response = self.client.request(request).await?;
        strip(response.headers_mut());
        *response.version_mut() = Version::default();
        Ok(response)
    }
}

fn strip(headers: &mut HeaderMap) {
    for name in CONNECTION_HEADERS {
        headers.remove(name);
    }
}

/// Handles the requests of one client connection.
pub(super) struct Forwarder {
    pub(super) shared: Arc<Shared>,
    pub(super) upstream: Upstream,
    /// Where the connection leads instead, if it was opened during a diversion.
    pub(super) diverted: Option<Upstream>,
    /// Notified to reset the connection.
    pub(super) cut: Arc<Notify>,
}

impl Forwarder {
    /// Answers one request.
    pub(super) async fn answer(
        self: Arc<Self>,
        request: http::Request<Incoming>,
    ) -> Result<Response<AnswerBody>, BoxError> {
        let mut request = request;
        let virtual_request = virtual_cluster::parse(request.method(), request.uri());
        if let Some(virtual_request) = &virtual_request {
            *request.uri_mut() = Uri::from(virtual_request.path.clone());
        }
        let parsed = Request::parse(request.method(), request.uri(), request.headers());
        let action = self.shared.rules().take(&parsed);
        let diverted = self.diverted.clone().or_else(|| self.shared.diverted(Diverted::All));
        let record = Arc::new(Record::new(parsed, request.version() == Version::HTTP_2, diverted.is_some()));
        self.shared.request_log().add(&record);

        let mut limit = None;
        match self.shared.fault() {
            Fault::Latency(delay) => tokio::time::sleep(delay).await,
            Fault::CutAfter(bytes) => limit = Some(bytes),
            _ => {}
        }
        match action {
            Some((_, Action::Answer(answer))) => return respond(&record, &answer),
            Some((_, Action::Delay(delay))) => tokio::time::sleep(delay).await,
            Some((_, Action::Hang)) => std::future::pending::<()>().await,
            Some((rule, Action::Hold)) => {
                while self.shared.rules().contains(rule) {
                    tokio::time::sleep(HOLD_CHECK_INTERVAL).await;
                }
            }
            Some((_, Action::CutAfter(bytes))) => limit = Some(bytes),
            None => {}
        }
        if let Some(answer) = virtual_request.and_then(|request| request.answer) {
            record.answered(200);
            let body = Full::new(Bytes::from(answer)).map_err(|never| match never {}).boxed();
            return Ok(Response::builder().header(header::CONTENT_TYPE, "application/json").body(body)?);
        }
        let response = diverted.as_ref().unwrap_or(&self.upstream).forward(request).await?;
        record.answered(response.status().as_u16());
        let cut = Arc::clone(&self.cut);
        Ok(response.map(|body| BodyExt::boxed(LimitedBody { body, left: limit, cut })))
    }
}

fn respond(record: &Record, answer: &Answer) -> Result<Response<AnswerBody>, BoxError> {
    record.answered(answer.code());
    let mut response = Response::builder()
        .status(answer.code())
        .header(header::CONTENT_TYPE, answer.content_type())
        .body(answer_body(answer))?;
    if let Some(encoding) = answer.encoding() {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    if let Some(seconds) = answer.retry_after_seconds() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    Ok(response)
}

fn answer_body(answer: &Answer) -> AnswerBody {
    let Some((part, pause)) = answer.repeated() else {
        return Full::new(answer.body()).map_err(|never| match never {}).boxed();
    };
    let parts = stream::unfold(Some(answer.body()), move |begin| {
        let part = part.clone();
        async move {
            let data = match begin {
                Some(begin) => begin,
                None => {
                    // Also without a pause: nobody else would be served meanwhile.
                    tokio::time::sleep(pause).await;
                    part
                }
            };
            Some((Ok(Frame::data(data)), None))
        }
    });
    BodyExt::boxed(StreamBody::new(parts))
}

/// A response body that resets the connection after a number of bytes.
struct LimitedBody {
    body: Incoming,
    left: Option<u64>,
    cut: Arc<Notify>,
}

impl Body for LimitedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.left == Some(0) {
            // The bytes before the limit are written: hyper polls the body again only after that.
            self.cut.notify_one();
            return Poll::Pending;
        }
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(context)) else {
            return Poll::Ready(None);
        };
        let frame = frame?;
        let Some(left) = self.left else { return Poll::Ready(Some(Ok(frame))) };
        let mut data = frame.into_data().unwrap_or_default();
        data.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        self.left = Some(left.saturating_sub(data.len() as u64));
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.left != Some(0) && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
