//! The REST client: get, create, apply, patch, replace and delete. Each is one request; its
//! response is returned as stored objects, or as a classified error.

use bytes::Bytes;
use http::{Method, StatusCode};
use kross_api::{FailureReason, Operation};
use kross_value::Value;
use serde_json::json;

use crate::audit::AuditVerb;
use crate::client::{ApiRequest, ApiResponse, ClusterClient, JSON};
use crate::discovery::{ApiKind, push_encoded};
use crate::error::{ApiError, Attempt, Missing, Status};
use crate::object::{StoredObject, read_object_or_outline};
use crate::offload;

const APPLY_PATCH: &str = "application/apply-patch+yaml";
pub(super) const MERGE_PATCH: &str = "application/merge-patch+json";

/// How the server treats unknown fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// It rejects the object.
    Strict,
    /// It drops them and sends a warning, like `kubectl` by default.
    #[default]
    Warn,
    /// It drops them.
    Ignore,
}

impl FieldValidation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "Strict",
            Self::Warn => "Warn",
            Self::Ignore => "Ignore",
        }
    }
}

/// How an object is applied.
#[derive(Clone, Copy, Debug)]
pub struct Apply<'a> {
    /// The field manager.
    pub manager: &'a str,
    /// Whether to take over fields of other managers.
    pub force: bool,
    /// How the server treats unknown fields.
    pub validation: FieldValidation,
    /// The subresource to apply to, such as `status`.
    pub subresource: Option<&'a str>,
    /// What an error says was attempted: create or update.
    pub operation: Operation,
}

impl<'a> Apply<'a> {
    /// Applies with a field manager, without taking over fields of others.
    #[must_use]
    pub fn by(manager: &'a str) -> Self {
        Self {
            manager,
            force: false,
            validation: FieldValidation::default(),
            subresource: None,
            operation: Operation::Update,
        }
    }

    /// Takes over fields of other managers.
    #[must_use]
    pub fn force(self) -> Self {
        Self { force: true, ..self }
    }
}

/// The deletion propagation policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents are deleted afterwards.
    Background,
    /// Dependents are deleted first.
    Foreground,
    /// Dependents are orphaned.
    Orphan,
}

/// Preconditions and options of a delete.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delete<'a> {
    /// It must be this object, not another one of the same name.
    pub uid: Option<&'a str>,
    /// It must not have changed since this version.
    pub resource_version: Option<&'a str>,
    /// The propagation policy. Default: that of the kind.
    pub propagation: Option<Propagation>,
}

/// The result of a delete.
#[derive(Clone, Debug)]
pub enum Deleted {
    /// The object was deleted.
    Removed,
    /// The object waits for its finalizers or its dependents.
    Terminating(StoredObject),
}

impl ClusterClient {
    /// Reads an object.
    ///
    /// # Errors
    /// The object is not found, or the cluster rejects the request or does not answer.
    pub async fn get(
        &self,
        kind: &ApiKind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<StoredObject, ApiError> {
        let object = self.get_or_outline(kind, namespace, name).await?;
        let target = Target { kind, namespace, name, operation: Operation::Get };
        self.readable(&target, object)
    }

    /// Reads an object, or its outline if it cannot be read.
    pub(crate) async fn get_or_outline(
        &self,
        kind: &ApiKind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<StoredObject, ApiError> {
        let target = Target { kind, namespace, name, operation: Operation::Get };
        let path = target.path(self, None)?;
        let pending = self.begin_audit(AuditVerb::Get, kind, namespace, name);
        let response = self.perform(&target, ApiRequest::get(path)).await;
        pending.finish(&response);
        self.object_or_outline(&target, response?).await
    }

    /// Applies an object (server-side apply). The object has its kind, its name and, if its kind is namespaced, its
    /// namespace.
    ///
    /// # Errors
    /// The cluster rejects the object, another manager owns a field (see [`ApiError::conflicts`]), or the cluster does
    /// not answer.
    pub async fn apply(
        &self,
        kind: &ApiKind,
        object: &Value,
        options: Apply<'_>,
    ) -> Result<StoredObject, ApiError> {
        let (namespace, name) = identity(object);
        let target = Target { kind, namespace, name, operation: options.operation };
        let mut path = target.path(self, options.subresource)?;
        path.push_str("?fieldManager=");
        push_encoded(&mut path, options.manager);
        path.push_str("&fieldValidation=");
        path.push_str(options.validation.as_str());
        if options.force {
            path.push_str("&force=true");
        }
        let request = ApiRequest::write(Method::PATCH, path, APPLY_PATCH, body(object));
        let response = self.perform(&target, request).await?;
        self.object(&target, response).await
    }

    /// Changes an object with a JSON merge patch. With `metadata.resourceVersion` in the patch it applies only to that
    /// version.
    ///
    /// # Errors
    /// The cluster rejects the patch, the object has changed, or the cluster does not answer.
    pub async fn merge_patch(
        &self,
        kind: &ApiKind,
        namespace: Option<&str>,
        name: &str,
        subresource: Option<&str>,
        manager: &str,
        patch: &Value,
    ) -> Result<StoredObject, ApiError> {
        let target = Target { kind, namespace, name, operation: Operation::Update };
        let path = with_manager(target.path(self, subresource)?, manager);
        let response =
            self.perform(&target, ApiRequest::write(Method::PATCH, path, MERGE_PATCH, body(patch))).await?;
        self.object(&target, response).await
    }

    /// Creates an object.
    ///
    /// # Errors
    /// The cluster rejects the object, an object of that name exists, or the cluster does not answer.
    pub async fn create(
        &self,
        kind: &ApiKind,
        object: &Value,
        manager: &str,
    ) -> Result<StoredObject, ApiError> {
        let (namespace, name) = identity(object);
        let target = Target { kind, namespace, name, operation: Operation::Create };
        let path = with_manager(kind.collection_path(namespace), manager);
        let response =
            self.perform(&target, ApiRequest::write(Method::POST, path, JSON, body(object))).await?;
        self.object(&target, response).await
    }

    /// Replaces an object, or a subresource such as `status`. With `metadata.resourceVersion` it replaces only that
    /// version.
    ///
    /// # Errors
    /// The cluster rejects the object, the object has changed, or the cluster does not answer.
    pub async fn replace(
        &self,
        kind: &ApiKind,
        object: &Value,
        subresource: Option<&str>,
        manager: &str,
    ) -> Result<StoredObject, ApiError> {
        let (namespace, name) = identity(object);
        let target = Target { kind, namespace, name, operation: Operation::Update };
        let path = with_manager(target.path(self, subresource)?, manager);
        let response =
            self.perform(&target, ApiRequest::write(Method::PUT, path, JSON, body(object))).await?;
        self.object(&target, response).await
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// The object is not found ([`ApiError::is_object_not_found`]), a precondition fails (`Conflict`), or the cluster
    /// rejects the request or does not answer.
    pub async fn delete(
        &self,
        kind: &ApiKind,
        namespace: Option<&str>,
        name: &str,
        options: Delete<'_>,
    ) -> Result<Deleted, ApiError> {
        let target = Target { kind, namespace, name, operation: Operation::Delete };
        let mut delete_options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if let Some(delete_options) = delete_options.as_object_mut() {
            if options.uid.is_some() || options.resource_version.is_some() {
                let mut preconditions = serde_json::Map::new();
                if let Some(uid) = options.uid {
                    preconditions.insert("uid".to_owned(), uid.into());
                }
                if let Some(version) = options.resource_version {
                    preconditions.insert("resourceVersion".to_owned(), version.into());
                }
                delete_options.insert("preconditions".to_owned(), preconditions.into());
            }
            if let Some(propagation) = options.propagation {
                delete_options.insert("propagationPolicy".to_owned(), format!("{propagation:?}").into());
            }
        }
        let request = ApiRequest::write(
            Method::DELETE,
            target.path(self, None)?,
            JSON,
            delete_options.to_string().into(),
        );
        let response = self.perform(&target, request).await?;
        // A `Status` of success, or the object as it was: then the object was deleted. Anything else proves nothing.
        if Status::read(&response.body).is_some_and(|status| status.is_success()) {
            return Ok(Deleted::Removed);
        }
        let object = self.object_or_outline(&target, response).await?;
        Ok(match object.deletion_timestamp() {
            Some(_) => Deleted::Terminating(object),
            None => Deleted::Removed,
        })
    }

    /// Reads a path that is not an object, such as an OpenAPI document, a version or a health check. Nobody is impersonated.
    ///
    /// # Errors
    /// The cluster rejects the request or does not answer.
    pub async fn fetch(&self, path: &str) -> Result<Bytes, ApiError> {
        let target = format!("`{}`", path.split('?').next().unwrap_or_default());
        self.as_itself().raw(Operation::Get, target, ApiRequest::list(path.to_owned())).await
    }

    /// Posts a review and returns the response.
    ///
    /// # Errors
    /// The cluster rejects the request or does not answer.
    pub async fn submit(&self, path: &str, body: Bytes) -> Result<Bytes, ApiError> {
        let target = format!("`{}`", path.rsplit('/').next().unwrap_or_default());
        self.raw(Operation::Create, target, ApiRequest::write(Method::POST, path.to_owned(), JSON, body))
            .await
    }

    /// Sends a request that is not about an object.
    async fn raw(
        &self,
        operation: Operation,
        target: String,
        request: ApiRequest,
    ) -> Result<Bytes, ApiError> {
        let attempt = Attempt { cluster: self.cluster().clone(), operation, target };
        match self.exchange(request).await {
            Err(error) => Err(ApiError::from_transport(attempt, &error)),
            Ok(response) if response.status.is_success() => Ok(response.body),
            Ok(response) => Err(ApiError::from_response(attempt, &response)),
        }
    }

    pub(super) async fn perform(
        &self,
        target: &Target<'_>,
        request: ApiRequest,
    ) -> Result<ApiResponse, ApiError> {
        let verb = match request.method {
            Method::POST => AuditVerb::Create,
            Method::PATCH => AuditVerb::Patch,
            Method::PUT => AuditVerb::Update,
            Method::DELETE => AuditVerb::Delete,
            // Reads are audited once, by the caller: not per page or refresh.
            _ => return self.send(target, request).await,
        };
        let pending = self.begin_audit(verb, target.kind, target.namespace, target.name);
        let response = self.send(target, ApiRequest { fence: self.fence().clone(), ..request }).await;
        match &response {
            Err(error) if error.is_fenced() => pending.discard(),
            _ => pending.finish(&response),
        }
        response
    }

    pub(super) async fn send(
        &self,
        target: &Target<'_>,
        request: ApiRequest,
    ) -> Result<ApiResponse, ApiError> {
        let response = self
            .exchange(request)
            .await
            .map_err(|error| ApiError::from_transport(target.attempt(self), &error))?;
        if response.status.is_success() {
            return Ok(response);
        }
        let error = self.response_error(target, target.attempt(self), &response);
        Err(match error.missing() {
            Some(Missing::Unexplained) => self.explain_not_found(target.kind, error).await,
            _ => self.explain_forbidden(target, error).await,
        })
    }

    /// The error of a response without success. A 404 is classified by what was not found.
    pub(crate) fn response_error(
        &self,
        target: &Target<'_>,
        attempt: Attempt,
        response: &ApiResponse,
    ) -> ApiError {
        if response.status != StatusCode::NOT_FOUND {
            return ApiError::from_response(attempt, response);
        }
        let mut status = Status::read(&response.body).unwrap_or_else(Status::unexplained);
        if target.kind.plural == "namespaces" && target.kind.group.is_empty() {
            status = status.about_namespaces();
        }
        ApiError::from_status(
            attempt,
            response.status,
            Some(status.about(target.namespace, target.name)),
            None,
        )
    }

    /// Parses a response and checks that it is about the requested object.
    async fn object(&self, target: &Target<'_>, response: ApiResponse) -> Result<StoredObject, ApiError> {
        let object = self.object_or_outline(target, response).await?;
        self.readable(target, object)
    }

    /// An object that is not an outline.
    fn readable(&self, target: &Target<'_>, object: StoredObject) -> Result<StoredObject, ApiError> {
        match object.unreadable() {
            Some(error) => Err(ApiError::unreadable(target.attempt(self), error)),
            None => Ok(object),
        }
    }

    /// Parses a response and checks that it is about the requested object: a hostile server can answer anything.
    pub(super) async fn object_or_outline(
        &self,
        target: &Target<'_>,
        response: ApiResponse,
    ) -> Result<StoredObject, ApiError> {
        let foreign = response.foreign;
        let object = offload::parse(response.body, read_object_or_outline).await.map_err(|panicked| {
            ApiError::new(target.attempt(self), FailureReason::ServerError, &panicked.to_string())
        })?;
        let object = object.map_err(|error| ApiError::unreadable(target.attempt(self), &error))?;
        let matches = object.kind() == target.kind.kind.as_str()
            && object.api_version() == target.kind.api_version()
            && (target.name.is_empty() || object.name() == target.name)
            && (!target.kind.namespaced || object.namespace().map(|text| &**text) == target.namespace);
        if matches {
            Ok(object.answered(foreign))
        } else {
            Err(ApiError::unexpected_response(target.attempt(self), "the response is about another object"))
        }
    }
}

/// The problem of a list with items that have no readable name.
pub(crate) fn nameless(dropped: usize) -> String {
    format!("{dropped} of the listed objects cannot be read, not even their names")
}

/// The object or objects that a request is about.
pub(crate) struct Target<'a> {
    pub(crate) kind: &'a ApiKind,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) operation: Operation,
}

impl Target<'_> {
    pub(super) fn attempt(&self, client: &ClusterClient) -> Attempt {
        let target = match (self.name, self.namespace) {
            ("", Some(namespace)) => format!("the {} objects of namespace `{namespace}`", self.kind.kind),
            ("", None) => format!("the {} objects", self.kind.kind),
            (name, namespace) => self.kind.display(namespace, name),
        };
        Attempt { cluster: client.cluster().clone(), operation: self.operation, target }
    }

    /// The path of the object. Names that consist of dots would change the path.
    pub(super) fn path(&self, client: &ClusterClient, subresource: Option<&str>) -> Result<String, ApiError> {
        let problem = match (self.name, self.namespace) {
            ("" | "." | "..", _) => Some("`metadata.name` is empty or invalid"),
            (_, Some("" | "." | "..")) => Some("`metadata.namespace` is empty or invalid"),
            (_, None) if self.kind.namespaced => Some("`metadata.namespace` is missing"),
            _ => None,
        };
        if let Some(problem) = problem {
            return Err(ApiError::new(self.attempt(client), FailureReason::Invalid, problem));
        }
        let mut path = self.kind.object_path(self.namespace, self.name);
        if let Some(subresource) = subresource {
            path.push('/');
            path.push_str(subresource);
        }
        Ok(path)
    }
}

pub(super) fn with_manager(mut path: String, manager: &str) -> String {
    path.push_str("?fieldManager=");
    push_encoded(&mut path, manager);
    path
}

fn identity(object: &Value) -> (Option<&str>, &str) {
    let text = |name| object.at(&["metadata", name]).and_then(Value::as_str);
    (text("namespace").filter(|namespace| !namespace.is_empty()), text("name").unwrap_or_default())
}

pub(super) fn body(value: &Value) -> Bytes {
    // Values have text keys and finite numbers, so serialisation cannot fail.
    serde_json::to_vec(value).unwrap_or_default().into()
}
