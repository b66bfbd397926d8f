//! Decompresses responses.

use std::io::Read;

use bytes::Bytes;

use crate::supervisor::{Task, catch_blocking};
use crate::transport::TransportError;

/// A response of this size can decompress to a few megabytes, which delays nobody for long.
const MAX_INLINE: usize = 1 << 13;

/// Decompresses a response up to the limit, on another thread unless it is small.
pub(super) async fn decompress(bytes: Bytes, limit: usize) -> Result<Bytes, TransportError> {
    if bytes.len() <= MAX_INLINE {
        return unpack(&bytes, limit);
    }
    let unpacked = catch_blocking(Task::Cache, move || unpack(&bytes, limit)).await;
    unpacked.unwrap_or_else(|panicked| Err(TransportError::Broken { problem: panicked.to_string() }))
}

/// Decompresses a response up to the limit: a small response can decompress to a huge one.
fn unpack(bytes: &Bytes, limit: usize) -> Result<Bytes, TransportError> {
    let mut decompressed = Vec::with_capacity(bytes.len().saturating_mul(4).min(limit));
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    flate2::read::GzDecoder::new(&**bytes)
        .take(most)
        .read_to_end(&mut decompressed)
        .map_err(|_| TransportError::Broken { problem: "cannot decompress the response".to_owned() })?;
    if decompressed.len() > limit {
        return Err(TransportError::TooLarge { limit });
    }
    Ok(decompressed.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn compressed(bytes: &[u8]) -> Bytes {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap().into()
    }

    #[test]
    fn a_response_that_decompresses_beyond_the_limit_is_rejected() {
        let bomb = compressed(&vec![0; 10 << 20]);
        assert!(bomb.len() < 20_000);
        assert_eq!(unpack(&bomb, 1 << 20), Err(TransportError::TooLarge { limit: 1 << 20 }));
        assert_eq!(unpack(&bomb, 10 << 20).unwrap().len(), 10 << 20);
    }
}
