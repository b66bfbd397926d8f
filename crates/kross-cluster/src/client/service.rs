//! The tower service that a `kube::Client` of a cluster sends its requests to.

use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Request, Response, header};
use kube::client::Body;
use tower::{BoxError, Service};

use super::{ClusterClient, SharedClient};
use crate::fence::Fence;
use crate::transport::{Call, ResponseBody, Timeouts, TransportError};

#[derive(Clone)]
pub(super) struct ClientService {
    client: ClusterClient,
}

impl ClientService {
    pub(super) fn new(client: ClusterClient) -> Self {
        Self { client }
    }
}

impl Service<Request<Body>> for ClientService {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<ResponseBody>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.client.clone();
        Box::pin(async move {
            let shared = client.current(false)?;
            let is_stream = request.uri().query().is_some_and(is_stream_request);
            // Streams do not end, so they need no permit.
            let permit = if is_stream {
                shared.check_replaced()?;
                None
            } else {
                Some(shared.permit(client.requester.as_ref()).await?)
            };
            let sent = send(&shared, &client, request, is_stream);
            let response = match &shared.breaker {
                Some(breaker) => breaker.run(sent, Response::status).await,
                None => sent.await,
            };
            if let Some(permit) = &permit {
                permit.adapt(&response, Response::status);
            }
            let opened = shared.breaker.as_ref().map(|breaker| breaker.opened());
            Ok(response?.map(|body| match opened {
                Some(opened) => body.holding(permit).until(opened),
                None => body.holding(permit),
            }))
        })
    }
}

async fn send(
    shared: &SharedClient,
    client: &ClusterClient,
    request: Request<Body>,
    is_stream: bool,
) -> Result<Response<ResponseBody>, TransportError> {
    let (head, body) = request.into_parts();
    let mut headers = head.headers;
    // Responses are not decompressed here.
    headers.remove(header::ACCEPT_ENCODING);
    headers.extend(shared.headers.clone());
    let transports = shared.transports();
    transports.credential.add_to(&mut headers).await?;
    if let Some(impersonation) = &client.impersonation {
        impersonation.add_to(&mut headers);
    }
    let body = body.collect_bytes().await.map_err(|_| TransportError::Closed)?;
    let limit = (!is_stream).then_some(shared.options.list_timeout);
    let timeouts = Timeouts { head: limit, total: limit };
    let fence = if head.method.is_safe() { Fence::default() } else { client.fence().clone() };
    let call = Call { method: head.method, path: head.uri, headers, body, deadline: None, timeouts, fence };
    let transport = if is_stream { &transports.watches } else { &transports.requests };
    transport.send(&call).await
}

/// Whether a request is a watch or follows logs, so that its response does not end.
fn is_stream_request(query: &str) -> bool {
    query.split('&').any(|pair| matches!(pair.split_once('='), Some(("watch" | "follow", "true" | "1"))))
}
