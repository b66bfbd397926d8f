//! Validates definitions for the admission webhook within limits: turns a request into the causes of a rejection and warnings,
//! in bounded time, and a few at once.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use kross_cluster::{Panicked, StoredObject, Task, catch_async, read_object};
use kross_diagnostics::render;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::context::Context;
use crate::definition::{self, Validation};
use crate::kinds;

/// How many definitions are validated at once. Others wait, as long as their time lasts.
const CONCURRENT: usize = 2;

/// A definition in an admission request.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The object, as JSON.
    pub object: Vec<u8>,
    /// The object that it replaces.
    pub old: Option<Vec<u8>>,
    /// How long the validation may take.
    pub limit: Duration,
}

/// A request that is not about a definition.
#[derive(Debug, thiserror::Error)]
pub enum NotADefinition {
    /// The object cannot be read.
    #[error("cannot read the object: {0}")]
    Unreadable(#[from] kross_cluster::UnreadableObject),
    /// The object is of another kind.
    #[error("`{0}` is no ResourceGraphDefinition")]
    Kind(String),
}

/// Validates definitions with what the controller knows. Clones share the limits.
#[derive(Clone)]
pub struct DefinitionValidator {
    context: Arc<OnceLock<Weak<Context>>>,
    permits: Arc<Semaphore>,
}

impl std::fmt::Debug for DefinitionValidator {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("DefinitionValidator")
    }
}

impl Default for DefinitionValidator {
    fn default() -> Self {
        Self { context: Arc::default(), permits: Arc::new(Semaphore::new(CONCURRENT)) }
    }
}

impl DefinitionValidator {
    /// The caches of this controller have synced: from now on definitions are validated.
    pub(crate) fn start(&self, context: &Arc<Context>) {
        // It starts once.
        let _ = self.context.set(Arc::downgrade(context));
    }

    /// Validates a definition, without side effects. What cannot be decided in time is allowed with a warning.
    ///
    /// # Errors
    /// The request is not about a definition.
    pub async fn validate(&self, submission: Submission) -> Result<Validation, NotADefinition> {
        let Submission { object, old, limit } = submission;
        let Some(context) = self.context.get().and_then(Weak::upgrade) else {
            return Ok(Validation::unchecked("the controller is starting, or stopping"));
        };
        let check = async move {
            let (object, old) = (read(&object)?, old.as_deref().map(read).transpose()?);
            Ok(definition::validate(&context, object, old.as_ref()).await)
        };
        let validation = limited(&self.permits, limit, check).await?;
        Ok(Validation { warnings: render::limit_warnings(validation.warnings), ..validation })
    }
}

/// Checks a definition once there is a permit, as far as that is done in time.
async fn limited(
    permits: &Arc<Semaphore>,
    limit: Duration,
    check: impl Future<Output = Result<Validation, NotADefinition>> + Send + 'static,
) -> Result<Validation, NotADefinition> {
    let deadline = Instant::now() + limit;
    let late = || Ok(Validation::unchecked(&format!("that takes longer than {limit:?}")));
    // The semaphore is never closed.
    let Ok(Ok(permit)) = timeout_at(deadline, Arc::clone(permits).acquire_owned()).await else {
        return late();
    };
    // A task of its own: what has started keeps its permit until it is finished, whoever still waits for it.
    let check = tokio::spawn(async move {
        let _permit = permit;
        catch_async(Task::Compile, check).await
    });
    match timeout_at(deadline, check).await {
        Ok(Ok(Ok(checked))) => checked,
        Ok(Ok(Err(_)) | Err(_)) => Ok(Validation::unchecked(&Panicked.to_string())),
        Err(_) => late(),
    }
}

fn read(object: &[u8]) -> Result<StoredObject, NotADefinition> {
    let object = read_object(object)?;
    if (object.group(), object.kind()) != kinds::DEFINITION {
        return Err(NotADefinition::Kind(object.kind().to_owned()));
    }
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(validation: &Validation) -> &str {
        assert!(validation.causes.is_empty());
        validation.warnings.first().map_or("", String::as_str)
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_decided_in_time_is_allowed_with_a_warning() {
        let permits = Arc::new(Semaphore::new(1));
        let limit = Duration::from_secs(4);
        let late = "the definition was not checked: that takes longer than 4s; its conditions will tell";
        let (finish, finished) = tokio::sync::oneshot::channel::<()>();
        let slow = async {
            let _ = finished.await;
            Ok(Validation::default())
        };
        assert_eq!(warning(&limited(&permits, limit, slow).await.unwrap()), late);
        // It still runs, so there is no permit for another.
        let waiting = limited(&permits, limit, async { Ok(Validation::default()) }).await.unwrap();
        assert_eq!(warning(&waiting), late);
        drop(finish);
        let next = limited(&permits, limit, async { Ok(Validation::default()) }).await.unwrap();
        assert_eq!(next, Validation::default());
    }

    #[tokio::test]
    async fn a_check_that_panics_allows_the_definition_with_a_warning() {
        let permits = Arc::new(Semaphore::new(1));
        let validation = limited(&permits, Duration::from_secs(60), async { panic!("a bug") }).await.unwrap();
        assert!(warning(&validation).contains("an internal error occurred"), "{validation:?}");
        assert_eq!(permits.available_permits(), 1);
    }

    #[test]
    fn other_objects_are_no_definitions() {
        let error = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        let map = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "1"}}"#;
        assert_eq!(error(map), "`ConfigMap` is no ResourceGraphDefinition");
        assert!(error("{").starts_with("cannot read the object: "));
    }
}
