//! CIDR ranges, for addresses that must not be connected to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A CIDR range such as `10.0.0.0/8` or `fe80::/10`. It also contains the IPv6 forms of its IPv4 addresses.
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
    /// Ranges without API servers but with services that hand out cloud credentials: link-local addresses, the address
    /// of the metadata service, and addresses that stand for this host.
    #[must_use]
    pub fn denied_by_default() -> Vec<Self> {
        let v4 = |address, length| Self { address: IpAddr::V4(address), length };
        let v6 = |address, length| Self { address: IpAddr::V6(address), length };
        vec![
            v4(Ipv4Addr::new(169, 254, 0, 0), 16),
            v4(Ipv4Addr::UNSPECIFIED, 8),
            v6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
            v6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), 128),
            v6(Ipv6Addr::UNSPECIFIED, 128),
        ]
    }

    /// Whether the range contains the address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, canonical(address)) {
            (IpAddr::V4(range), IpAddr::V4(address)) => {
                same(u128::from(range.to_bits()) << 96, u128::from(address.to_bits()) << 96, self.length)
            }
            (IpAddr::V6(range), IpAddr::V6(address)) => same(range.to_bits(), address.to_bits(), self.length),
            _ => false,
        }
    }
}

fn same(range: u128, address: u128, length: u8) -> bool {
    u32::from(length).checked_sub(1).is_none_or(|last| (range ^ address) >> (127 - last) == 0)
}

/// The IPv4 address in an IPv6 address, if it has one: mapped, or translated by NAT64 (`64:ff9b::/96`).
fn canonical(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => match v6.segments() {
            [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                IpAddr::V4(Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low)))
            }
            _ => IpAddr::V6(v6),
        },
        v4 => v4,
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
