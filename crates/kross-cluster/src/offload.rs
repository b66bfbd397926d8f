//! Parses large bodies on threads where that delays nobody: a task that parses 32 MiB on an async thread would hold up
//! every other task of the thread, leases and probes among them.

use bytes::Bytes;

use crate::supervisor::{Panicked, Task, catch_blocking};

/// Bodies up to this size are parsed where they are: to hand them over would take longer.
pub(crate) const MAX_INLINE: usize = 1 << 20;

/// Calls a function with a body, on another thread if the body is large.
///
/// # Errors
/// The function panics on the other thread.
pub(crate) async fn parse<T: Send + 'static>(
    bytes: Bytes,
    parse: impl FnOnce(&[u8]) -> T + Send + 'static,
) -> Result<T, Panicked> {
    if bytes.len() <= MAX_INLINE {
        return Ok(parse(&bytes));
    }
    catch_blocking(Task::Cache, move || parse(&bytes)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_large_body_is_parsed_on_another_thread() {
        let here = std::thread::current().id();
        for (size, inline) in [(10, true), (MAX_INLINE, true), (MAX_INLINE + 1, false)] {
            let body = Bytes::from(vec![b'x'; size]);
            let (length, thread) =
                parse(body, |bytes| (bytes.len(), std::thread::current().id())).await.unwrap();
            assert_eq!((length, thread == here), (size, inline));
        }
    }
}
