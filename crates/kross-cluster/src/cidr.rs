//! CIDR ranges, for addresses that must not be connected to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A CIDR range such as `10.0.0.0/8` or `fe80::/10`. It also contains the IPv6 forms of its IPv4 addresses, and `127.0.0.0/8`
/// contains `::1`.
///
/// ```
/// use kross_cluster::Cidr;
///
/// let range: Cidr = "169.254.0.0/16".parse().unwrap();
/// assert!(range.contains("169.254.169.254".parse().unwrap()));
/// assert!(range.contains("::ffff:169.254.169.254".parse().unwrap()));
/// assert!(!range.contains("169.253.0.1".parse().unwrap()));
/// assert!("10.0.0.0/33".parse::<Cidr>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    address: IpAddr,
    length: u8,
}

/// The text is not a CIDR range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a CIDR range; write it like `10.0.0.0/8` or `fe80::/10`")]
pub struct NotACidr;

impl Cidr {
    /// Ranges without API servers but with services that hand out cloud credentials: link-local addresses, the addresses of
    /// metadata services, and addresses that stand for this host.
    #[must_use]
    pub fn denied_by_default() -> Vec<Self> {
        let v4 = |address, length| Self { address: IpAddr::V4(address), length };
        let v6 = |address, length| Self { address: IpAddr::V6(address), length };
        vec![
            v4(Ipv4Addr::new(169, 254, 0, 0), 16),
            v4(Ipv4Addr::UNSPECIFIED, 8),
            // Alibaba, Azure, and Oracle.
            v4(Ipv4Addr::new(100, 100, 100, 200), 32),
            v4(Ipv4Addr::new(168, 63, 129, 16), 32),
            v4(Ipv4Addr::new(192, 0, 0, 192), 32),
            v6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
            // AWS, Google, Oracle, and Scaleway.
            v6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), 128),
            // The agent of EKS Pod Identity; its IPv4 address is link-local.
            v6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23), 128),
            v6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), 128),
            v6(Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe), 128),
            v6(Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42), 128),
            v6(Ipv6Addr::UNSPECIFIED, 128),
        ]
    }

    /// Whether the range contains the address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(range), IpAddr::V4(address)) => same_v4(range, address, self.length),
            (IpAddr::V4(range), IpAddr::V6(address)) => {
                ipv4_forms(address).iter().flatten().any(|form| same_v4(range, *form, self.length))
            }
            (IpAddr::V6(range), IpAddr::V6(address)) => same(range.to_bits(), address.to_bits(), self.length),
            // The mapped form, for ranges such as `::ffff:0:0/96`.
            (IpAddr::V6(range), IpAddr::V4(address)) => {
                same(range.to_bits(), address.to_ipv6_mapped().to_bits(), self.length)
            }
        }
    }
}

fn same_v4(range: Ipv4Addr, address: Ipv4Addr, length: u8) -> bool {
    same(u128::from(range.to_bits()) << 96, u128::from(address.to_bits()) << 96, length)
}

fn same(range: u128, address: u128, length: u8) -> bool {
    u32::from(length).checked_sub(1).is_none_or(|last| (range ^ address) >> (127 - last) == 0)
}

/// The IPv4 addresses that an IPv6 address may lead to: mapped or compatible, translated by NAT64 (`64:ff9b::/96` and the
/// local `64:ff9b:1::/48`), tunnelled by 6to4, or the loopback address.
fn ipv4_forms(address: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let v4 = |high: u16, low: u16| Some(Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low)));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => [None, None],
        [0, 0, 0, 0, 0, 0, 0, 1] => [Some(Ipv4Addr::LOCALHOST), None],
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            [v4(high, low), None]
        }
        // The length of the prefix is unknown: the address is at the end (RFC 6052, /96), or around bits 64 to 71 (/48).
        [0x64, 0xff9b, 1, first, second, third, high, low] => {
            [v4(high, low), v4(first, (second << 8) | (third >> 8))]
        }
        [0x2002, high, low, ..] => [v4(high, low), None],
        _ => [None, None],
    }
}

impl FromStr for Cidr {
    type Err = NotACidr;

    fn from_str(text: &str) -> Result<Self, NotACidr> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length.parse::<u8>().map_err(|_| NotACidr)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NotACidr)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = length.unwrap_or(most);
        if length > most { Err(NotACidr) } else { Ok(Self { address, length }) }
    }
}

/// Whether one of the ranges contains the address.
pub(crate) fn is_denied(address: IpAddr, denied: &[Cidr]) -> bool {
    denied.iter().any(|range| range.contains(address))
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(address: &str, ranges: &[Cidr]) -> bool {
        is_denied(address.parse().unwrap(), ranges)
    }

    #[test]
    fn metadata_services_of_every_cloud_are_denied_in_every_form() {
        let ranges = Cidr::denied_by_default();
        for address in [
            "169.254.169.254",
            "169.254.170.2",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "fd00:c1::a9fe:a9fe",
            "fd00:42::42",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "::ffff:100.100.100.200",
            "64:ff9b::a83f:8110",
            "64:ff9b:1::a9fe:a9fe",
            "64:ff9b:1:a9fe:a9:fe00::",
            "2002:a9fe:a9fe::",
            "2002:6464:64c8::1",
            "0.0.0.0",
            "::",
            "2002:0:1::",
        ] {
            assert!(denied(address, &ranges), "{address}");
        }
        for address in
            ["10.0.0.1", "127.0.0.1", "::1", "100.100.100.201", "2001:db8::1", "2002:a00:1::", "fd00:ec2::1"]
        {
            assert!(!denied(address, &ranges), "{address}");
        }
    }

    #[test]
    fn a_denied_loopback_range_covers_both_families() {
        let ranges = ["127.0.0.0/8".parse().unwrap()];
        for address in ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", "::127.0.0.1", "2002:7f00:1::"] {
            assert!(denied(address, &ranges), "{address}");
        }
        assert!(!denied("128.0.0.1", &ranges) && !denied("::2", &ranges));
    }

    #[test]
    fn ranges_of_mapped_addresses_and_tunnels_are_denied_as_written() {
        assert!(denied("10.1.2.3", &["::ffff:10.0.0.0/104".parse().unwrap()]));
        assert!(denied("2002:808:808::", &["2002::/16".parse().unwrap()]));
        assert!(denied("64:ff9b::808:808", &["64:ff9b::/96".parse().unwrap()]));
    }
}
