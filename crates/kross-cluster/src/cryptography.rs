//! The cryptography of TLS, for clients and servers: ring, or the FIPS-validated module of AWS-LC in a build with the feature `fips`.

use rustls::crypto::CryptoProvider;

/// The cryptography of every TLS connection.
#[cfg(not(feature = "fips"))]
#[must_use]
pub fn crypto_provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

/// The cryptography of every TLS connection.
#[cfg(feature = "fips")]
#[must_use]
pub fn crypto_provider() -> CryptoProvider {
    rustls::crypto::default_fips_provider()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cryptography_is_validated_where_the_build_asks_for_it() {
        assert_eq!(crypto_provider().fips(), cfg!(feature = "fips"));
    }
}
