//! URLs, parsed as Go's `net/url` does, which Kubernetes uses. It differs from browsers' URL parsing.

use std::any::Any;

use super::super::arguments::{charge_bytes, functions, opaque, succeeds, text};
use super::super::{Call, Library};
use crate::error::{Fault, sized};
use crate::value::{Opaque, Value};

mod escape;
mod parse;

use parse::Url;
pub(super) use parse::check_request;

/// URLs.
pub static LIBRARY: Library = Library {
    name: "kubernetes.urls",
    functions: functions! {
        "getEscapedPath": "Returns the path, percent-encoded where needed; empty if there is none." {
            "(kubernetes.URL).getEscapedPath() -> string" => |_, a| Ok(Value::string(url_of(a)?.escaped_path())),
        }
        "getHost": "Returns the host with its port; empty if there is none." {
            "(kubernetes.URL).getHost() -> string" => |_, a| Ok(lossy(&url_of(a)?.host)),
        }
        "getHostname": "Returns the host without the port and the brackets of an IPv6 address; empty if there is none." {
            "(kubernetes.URL).getHostname() -> string" => |_, a| Ok(lossy(url_of(a)?.host_and_port().0)),
        }
        "getPort": "Returns the port; empty if there is none." {
            "(kubernetes.URL).getPort() -> string" => |_, a| Ok(lossy(url_of(a)?.host_and_port().1)),
        }
        "getQuery": "Returns the query parameters, each with all of its values." {
            "(kubernetes.URL).getQuery() -> map(string, list(string))" => query,
        }
        "getScheme": "Returns the scheme in lower case; empty if there is none." {
            "(kubernetes.URL).getScheme() -> string" => |_, a| Ok(Value::string(url_of(a)?.scheme.as_str())),
        }
        "isURL": "Returns whether the string is an absolute URL or an absolute path." {
            "isURL(string) -> bool" => is_url,
        }
        "url": "Parses an absolute URL or an absolute path." {
            "url(string) -> kubernetes.URL" => url,
        }
    },
};

impl Opaque for Url {
    fn type_name(&self) -> &'static str {
        "kubernetes.URL"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self.shown() == other.shown())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn text(&self) -> Option<String> {
        Some(self.shown())
    }
}

/// Unescaped parts can be any bytes, but CEL strings are UTF-8.
fn lossy(bytes: &[u8]) -> Value {
    Value::string(String::from_utf8_lossy(bytes).as_ref())
}

fn url_of(arguments: &[Value]) -> Result<&Url, Fault> {
    opaque(arguments, 0, "kubernetes.URL")
}

fn parsed(call: &mut Call<'_>, arguments: &[Value]) -> Result<Url, Fault> {
    let text = text(arguments, 0)?;
    charge_bytes(call, text.len())?;
    let invalid = |why| Fault::invalid(format!("{} is not a URL: {why}", sized(text)));
    check_request(text).map_err(invalid)?;
    Url::parse(text).map_err(invalid)
}

fn url(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    parsed(call, arguments).map(Value::opaque)
}

fn is_url(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let text = text(arguments, 0)?;
    charge_bytes(call, text.len())?;
    succeeds(check_request(text).map_err(Fault::InvalidArgument))
}

fn query(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let url = url_of(arguments)?;
    charge_bytes(call, url.raw_query.len())?;
    let mut entries: Vec<(Value, Vec<Value>)> = Vec::new();
    for (key, value) in url.query() {
        call.charge(1 + entries.len() / 8)?;
        let (key, value) = (lossy(&key), lossy(&value));
        match entries.iter_mut().find(|(known, _)| known.equals(&key)) {
            Some((_, values)) => values.push(value),
            None => entries.push((key, vec![value])),
        }
    }
    Ok(Value::map(entries.into_iter().map(|(key, values)| (key, Value::list(values))).collect()))
}
