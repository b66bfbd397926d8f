//! IP addresses: IPv4 and IPv6, without zones and without IPv4-mapped IPv6 addresses.

use std::any::Any;
use std::net::IpAddr;

use super::super::arguments::{charge_bytes, functions, opaque, succeeds, text};
use super::super::{Call, Library};
use crate::error::{Fault, sized};
use crate::value::{Opaque, Value};

/// IP addresses.
pub static LIBRARY: Library = Library {
    name: "kubernetes.net.ip",
    functions: functions! {
        "family": "Returns the IP version: 4 or 6." {
            "(net.IP).family() -> int" => |_, a| Ok(Value::Int(if address(a)?.is_ipv4() { 4 } else { 6 })),
        }
        "ip": "Parses an IP address." {
            "ip(string) -> net.IP" => ip,
        }
        "ip.isCanonical": "Returns whether the string is the canonical form of its address." {
            "ip.isCanonical(string) -> bool" => is_canonical,
        }
        "isGlobalUnicast": "Returns whether the address is neither unspecified, loopback, multicast, link-local nor broadcast." {
            "(net.IP).isGlobalUnicast() -> bool" => |_, a| Ok(Value::Bool(is_global_unicast(address(a)?))),
        }
        "isIP": "Returns whether the string is an IP address." {
            "isIP(string) -> bool" => is_ip,
        }
        "isLinkLocalMulticast": "Returns whether the address is in `224.0.0.0/24` or `ff02::/16`." {
            "(net.IP).isLinkLocalMulticast() -> bool" => |_, a| Ok(Value::Bool(is_link_local_multicast(address(a)?))),
        }
        "isLinkLocalUnicast": "Returns whether the address is in `169.254.0.0/16` or `fe80::/10`." {
            "(net.IP).isLinkLocalUnicast() -> bool" => |_, a| Ok(Value::Bool(is_link_local_unicast(address(a)?))),
        }
        "isLoopback": "Returns whether the address is in `127.0.0.0/8` or `::1`." {
            "(net.IP).isLoopback() -> bool" => |_, a| Ok(Value::Bool(address(a)?.is_loopback())),
        }
        "isUnspecified": "Returns whether the address is `0.0.0.0` or `::`." {
            "(net.IP).isUnspecified() -> bool" => |_, a| Ok(Value::Bool(address(a)?.is_unspecified())),
        }
        "string": "Converts the address to a string." {
            "string(net.IP) -> string" => |_, a| Ok(Value::string(address(a)?.to_string())),
        }
    },
};

/// An IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip(pub IpAddr);

impl Opaque for Ip {
    fn type_name(&self) -> &'static str {
        "net.IP"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn text(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}

fn address(arguments: &[Value]) -> Result<IpAddr, Fault> {
    Ok(opaque::<Ip>(arguments, 0, "net.IP")?.0)
}

/// Parses an address.
pub(super) fn parse(text: &str) -> Result<IpAddr, Fault> {
    if text.contains('%') {
        return Err(Fault::invalid("an IP address must not have a zone"));
    }
    let address: IpAddr =
        text.parse().map_err(|_| Fault::invalid(format!("{} is not an IP address", sized(text))))?;
    if let IpAddr::V6(six) = address
        && six.to_ipv4_mapped().is_some()
    {
        return Err(Fault::invalid("an IPv4-mapped IPv6 address is not allowed"));
    }
    Ok(address)
}

fn argument(call: &mut Call<'_>, arguments: &[Value]) -> Result<IpAddr, Fault> {
    let text = text(arguments, 0)?;
    charge_bytes(call, text.len())?;
    parse(text)
}

fn ip(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    argument(call, arguments).map(|address| Value::opaque(Ip(address)))
}

fn is_ip(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    succeeds(argument(call, arguments))
}

fn is_canonical(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let address = argument(call, arguments)?;
    Ok(Value::Bool(address.to_string() == text(arguments, 0)?.as_str()))
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => four.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(six) => six.segments().first().is_some_and(|segment| segment & 0xff0f == 0xff02),
    }
}

fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.is_unicast_link_local(),
    }
}

fn is_global_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(four) if four.is_broadcast());
    !broadcast
        && !address.is_unspecified()
        && !address.is_loopback()
        && !address.is_multicast()
        && !is_link_local_unicast(address)
}

#[cfg(test)]
mod tests {
    use super::super::super::arguments::testing::{err, ok};
    use super::*;

    fn named(name: &str, address: &str) -> String {
        let function = LIBRARY.functions.iter().find(|function| function.name == name).unwrap();
        let member = function.overloads[0].signature.starts_with('(');
        let argument =
            if member { Value::opaque(Ip(address.parse().unwrap())) } else { Value::string(address) };
        ok(function.overloads[0].implementation, [argument])
    }

    #[test]
    fn addresses_are_parsed_strictly() {
        assert_eq!(ok(ip, [Value::string("2001:DB8::0:1")]), "2001:db8::1");
        assert!(err(ip, [Value::string("fe80::1%en0")]).contains("zone"));
        assert!(err(ip, [Value::string("::ffff:1.2.3.4")]).contains("IPv4"));
        for wrong in
            ["192.168.0.1.0", "127.0.0.256", "01.2.3.4", ":::1", "", "1.2.3", " 1.2.3.4", "1.2.3.4/8"]
        {
            assert_eq!(named("isIP", wrong), "false", "{wrong}");
        }
        assert_eq!(
            (named("ip.isCanonical", "2001:DB8::1"), named("ip.isCanonical", "::1")),
            ("false".into(), "true".into())
        );
        assert!(err(is_canonical, [Value::string("x")]).contains("not an IP address"));
    }

    #[test]
    fn addresses_are_classified() {
        assert_eq!((named("family", "1.2.3.4"), named("family", "::1")), ("4".into(), "6".into()));
        assert_eq!(named("isLinkLocalMulticast", "224.0.0.1"), "true");
        assert_eq!(named("isLinkLocalMulticast", "224.0.1.1"), "false");
        assert_eq!(named("isLinkLocalMulticast", "ff12::1"), "true");
        assert_eq!(named("isLinkLocalUnicast", "fe80::1"), "true");
        assert_eq!(named("isGlobalUnicast", "192.168.0.1"), "true");
        assert_eq!(named("isGlobalUnicast", "255.255.255.255"), "false");
        assert_eq!(named("isGlobalUnicast", "fd00::1"), "true");
        assert_eq!(named("isUnspecified", "::"), "true");
    }
}
