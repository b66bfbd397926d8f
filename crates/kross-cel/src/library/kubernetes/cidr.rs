//! CIDR ranges such as `10.0.0.0/8`.

use std::any::Any;
use std::net::IpAddr;

use super::super::arguments::{any, charge_bytes, functions, opaque, succeeds, text};
use super::super::{Call, Library};
use super::ip::{self, Ip};
use crate::error::{Fault, sized};
use crate::value::{Opaque, Value};

/// CIDR ranges.
pub static LIBRARY: Library = Library {
    name: "kubernetes.net.cidr",
    functions: functions! {
        "cidr": "Parses a CIDR range." {
            "cidr(string) -> net.CIDR" => cidr,
        }
        "containsCIDR": "Returns whether the range contains another range." {
            "(net.CIDR).containsCIDR(string) -> bool" => contains_cidr,
            "(net.CIDR).containsCIDR(net.CIDR) -> bool" => contains_cidr,
        }
        "containsIP": "Returns whether the range contains an address." {
            "(net.CIDR).containsIP(string) -> bool" => contains_ip,
            "(net.CIDR).containsIP(net.IP) -> bool" => contains_ip,
        }
        "ip": "Returns the address part, as given." {
            "(net.CIDR).ip() -> net.IP" => |_, a| Ok(Value::opaque(Ip(range(a)?.address))),
        }
        "isCIDR": "Returns whether the string is a CIDR range." {
            "isCIDR(string) -> bool" => is_cidr,
        }
        "isMask": "Returns whether the address part is the first address of the range." {
            "(net.CIDR).isMask() -> bool" => |_, a| Ok(Value::Bool(range(a)?.masked() == range(a)?)),
        }
        "masked": "Returns the range with its first address as the address part." {
            "(net.CIDR).masked() -> net.CIDR" => |_, a| Ok(Value::opaque(range(a)?.masked())),
        }
        "prefixLength": "Returns the prefix length in bits." {
            "(net.CIDR).prefixLength() -> int" => |_, a| Ok(Value::Int(i64::from(range(a)?.bits))),
        }
        "string": "Converts the range to a string." {
            "string(net.CIDR) -> string" => |_, a| Ok(Value::string(range(a)?.shown())),
        }
    },
};

/// A CIDR range: an address and a prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    bits: u8,
}

impl Cidr {
    fn parse(text: &str) -> Result<Self, Fault> {
        let invalid = || Fault::invalid(format!("{} is not a CIDR range such as `10.0.0.0/8`", sized(text)));
        let (address, bits) = text.rsplit_once('/').ok_or_else(invalid)?;
        let address = ip::parse(address)?;
        let digits = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        if !digits || (bits.len() > 1 && bits.starts_with('0')) {
            return Err(invalid());
        }
        let bits: u8 = bits.parse().map_err(|_| invalid())?;
        if bits > width(address) { Err(invalid()) } else { Ok(Self { address, bits }) }
    }

    fn masked(self) -> Self {
        Self { address: masked(self.address, self.bits), bits: self.bits }
    }

    fn contains(self, other: IpAddr) -> bool {
        width(self.address) == width(other) && masked(other, self.bits) == self.masked().address
    }

    fn shown(self) -> String {
        format!("{}/{}", self.address, self.bits)
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn masked(address: IpAddr, bits: u8) -> IpAddr {
    let host = u32::from(width(address).saturating_sub(bits));
    match address {
        IpAddr::V4(four) => IpAddr::V4((four.to_bits() & u32::MAX.checked_shl(host).unwrap_or(0)).into()),
        IpAddr::V6(six) => IpAddr::V6((six.to_bits() & u128::MAX.checked_shl(host).unwrap_or(0)).into()),
    }
}

impl Opaque for Cidr {
    fn type_name(&self) -> &'static str {
        "net.CIDR"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn text(&self) -> Option<String> {
        Some(self.shown())
    }
}

fn range(arguments: &[Value]) -> Result<Cidr, Fault> {
    opaque::<Cidr>(arguments, 0, "net.CIDR").copied()
}

fn parsed(call: &mut Call<'_>, arguments: &[Value], at: usize) -> Result<Cidr, Fault> {
    let text = text(arguments, at)?;
    charge_bytes(call, text.len())?;
    Cidr::parse(text)
}

fn cidr(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    parsed(call, arguments, 0).map(Value::opaque)
}

fn is_cidr(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    succeeds(parsed(call, arguments, 0))
}

fn contains_ip(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let range = range(arguments)?;
    let address = match any(arguments, 1)? {
        Value::String(text) => {
            charge_bytes(call, text.len())?;
            ip::parse(text)?
        }
        _ => opaque::<Ip>(arguments, 1, "net.IP")?.0,
    };
    Ok(Value::Bool(range.contains(address)))
}

fn contains_cidr(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let range = range(arguments)?;
    let other = match any(arguments, 1)? {
        Value::String(_) => parsed(call, arguments, 1)?,
        _ => *opaque::<Cidr>(arguments, 1, "net.CIDR")?,
    };
    Ok(Value::Bool(range.bits <= other.bits && range.contains(other.address)))
}

#[cfg(test)]
mod tests {
    use super::super::super::arguments::testing::{err, ok, show};
    use super::*;

    fn range_of(text: &str) -> Value {
        Value::opaque(Cidr::parse(text).unwrap())
    }

    #[test]
    fn ranges_contain_ranges_and_addresses_of_the_same_family() {
        let contains = |outer: &str, inner: &str| ok(contains_cidr, [range_of(outer), Value::string(inner)]);
        assert_eq!(contains("192.168.0.0/24", "192.168.0.0/25"), "true");
        assert_eq!(contains("192.168.0.0/24", "192.168.0.0/23"), "false");
        assert_eq!(contains("10.0.0.0/8", "10.0.0.0/8"), "true");
        assert_eq!(contains("::/0", "1.2.3.4/32"), "false");
        assert_eq!(ok(contains_ip, [range_of("2001:db8::/32"), Value::string("2001:db8::1")]), "true");
        assert_eq!(ok(contains_ip, [range_of("0.0.0.0/0"), Value::string("255.1.2.3")]), "true");
        assert_eq!(ok(contains_ip, [range_of("10.0.0.7/32"), Value::string("10.0.0.8")]), "false");
        assert!(err(contains_ip, [range_of("10.0.0.0/8"), Value::string("x")]).contains("not an IP address"));
    }

    #[test]
    fn ranges_are_parsed_strictly_but_may_have_host_bits() {
        assert_eq!(show(&range_of("192.168.1.5/24")), "192.168.1.5/24");
        assert_eq!(Cidr::parse("192.168.1.5/24").unwrap().masked().shown(), "192.168.1.0/24");
        assert_eq!(Cidr::parse("2001:db8::1/128").unwrap().masked().shown(), "2001:db8::1/128");
        for wrong in [
            "10.0.0.0",
            "10.0.0.0/33",
            "10.0.0.0/08",
            "10.0.0.0/+8",
            "::/129",
            "fe80::1%en0/24",
            "10.0.0.0/",
            "::ffff:1.2.3.4/96",
            "/8",
        ] {
            assert_eq!(ok(is_cidr, [Value::string(wrong)]), "false", "{wrong}");
        }
    }
}
