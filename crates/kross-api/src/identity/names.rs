//! The syntax of the names of namespaces and objects.

/// Whether this is the name of a namespace: a DNS label.
pub(crate) fn is_namespace(name: &str) -> bool {
    name.len() <= 63 && is_dns_label(name)
}

/// Whether this is the name of an object of most kinds: a DNS subdomain.
pub(crate) fn is_object_name(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_dns_label)
}

/// Lower-case letters, digits and `-`, with a letter or digit at both ends; of any length.
fn is_dns_label(name: &str) -> bool {
    let edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.first().is_some_and(edge)
        && bytes.last().is_some_and(edge)
        && bytes.iter().all(|byte| edge(byte) || *byte == b'-')
}
