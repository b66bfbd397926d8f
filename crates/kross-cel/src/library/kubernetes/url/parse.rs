//! Parses and formats URLs as Go does.

use std::net::IpAddr;

use super::escape::{Part, escape, is_valid_encoded, unescape};

/// A query with more parameters is ignored.
const MAX_PARAMETERS: usize = 10_000;

/// The parts of a URL, unescaped except for the `raw_` ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Url {
    pub(super) scheme: String,
    pub(super) host: Vec<u8>,
    pub(super) raw_query: String,
    opaque: String,
    user: Option<(Vec<u8>, Option<Vec<u8>>)>,
    path: Vec<u8>,
    raw_path: String,
    omit_host: bool,
    force_query: bool,
    fragment: Vec<u8>,
    raw_fragment: String,
}

/// Whether the text can be the target of a request: absolute, and without a fragment of its own.
pub(in super::super) fn check_request(text: &str) -> Result<(), String> {
    Url::parse_without_fragment(text, true).map(drop)
}

impl Url {
    /// Parses any URL, also relative ones.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = Self::parse_without_fragment(text, false)?;
        url.fragment = unescape(fragment, Part::Fragment)?;
        if escape(&url.fragment, Part::Fragment) != fragment {
            url.raw_fragment = fragment.to_owned();
        }
        Ok(url)
    }

    fn parse_without_fragment(text: &str, request: bool) -> Result<Self, String> {
        if text.bytes().any(|byte| byte.is_ascii_control()) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text.is_empty() && request {
            return Err("empty url".to_owned());
        }
        let mut url = Self::default();
        if text == "*" {
            url.path = b"*".to_vec();
            return Ok(url);
        }
        let (scheme, rest) = scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        let rest = url.take_query(rest);
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                url.opaque = rest.to_owned();
                return Ok(url);
            }
            if request {
                return Err("invalid URI for request".to_owned());
            }
            if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let path = url.take_authority(rest, request)?;
        url.path = unescape(path, Part::Path)?;
        if escape(&url.path, Part::Path) != path {
            url.raw_path = path.to_owned();
        }
        Ok(url)
    }

    fn take_query<'a>(&mut self, rest: &'a str) -> &'a str {
        match rest.split_once('?') {
            Some((rest, "")) => {
                self.force_query = true;
                rest
            }
            Some((rest, query)) => {
                self.raw_query = query.to_owned();
                rest
            }
            None => rest,
        }
    }

    /// Parses user and host, if there are any, and returns the path.
    fn take_authority<'a>(&mut self, rest: &'a str, request: bool) -> Result<&'a str, String> {
        let absolute = !self.scheme.is_empty();
        let expected = absolute || (!request && !rest.starts_with("///"));
        match rest.strip_prefix("//") {
            Some(rest) if expected => {
                let (authority, path) =
                    rest.split_at_checked(rest.find('/').unwrap_or(rest.len())).unwrap_or((rest, ""));
                self.parse_authority(authority)?;
                Ok(path)
            }
            _ => {
                self.omit_host = absolute && rest.starts_with('/');
                Ok(rest)
            }
        }
    }

    fn parse_authority(&mut self, authority: &str) -> Result<(), String> {
        let (user, host) =
            authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        self.host = parse_host(&self.scheme, host)?;
        let Some(user) = user else { return Ok(()) };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
        if !user.bytes().all(plain) {
            return Err("net/url: invalid userinfo".to_owned());
        }
        let (name, password) = user.split_once(':').map_or((user, None), |(name, word)| (name, Some(word)));
        let password = password.map(|word| unescape(word, Part::UserPassword)).transpose()?;
        self.user = Some((unescape(name, Part::UserPassword)?, password));
        Ok(())
    }

    /// The escaped path: the original one if it is a valid encoding.
    pub(super) fn escaped_path(&self) -> String {
        escaped(&self.path, &self.raw_path, Part::Path)
    }

    /// The host without its port, and the port.
    pub(super) fn host_and_port(&self) -> (&[u8], &[u8]) {
        let host = self.host.as_slice();
        let colon = host.iter().rposition(|byte| *byte == b':');
        let (host, port) = match colon.and_then(|colon| host.split_at_checked(colon)) {
            Some((host, port)) if port.iter().skip(1).all(u8::is_ascii_digit) => {
                (host, port.get(1..).unwrap_or_default())
            }
            _ => (host, b"".as_slice()),
        };
        let bare = host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]")).unwrap_or(host);
        (bare, port)
    }

    /// The parameters in order. Invalid ones are omitted.
    pub(super) fn query(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        if self.raw_query.matches('&').count() >= MAX_PARAMETERS {
            return Vec::new();
        }
        let pairs = self.raw_query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        pairs
            .filter_map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                Some((unescape(key, Part::Query).ok()?, unescape(value, Part::Query).ok()?))
            })
            .collect()
    }

    /// The whole URL.
    pub(super) fn shown(&self) -> String {
        let mut out = String::new();
        if !self.scheme.is_empty() {
            out.push_str(&self.scheme);
            out.push(':');
        }
        if self.opaque.is_empty() {
            self.show_authority(&mut out);
            let path = self.escaped_path();
            if !path.is_empty() && !path.starts_with('/') && !self.host.is_empty() {
                out.push('/');
            }
            if out.is_empty() && path.split('/').next().is_some_and(|segment| segment.contains(':')) {
                out.push_str("./");
            }
            out.push_str(&path);
        } else {
            out.push_str(&self.opaque);
        }
        if self.force_query || !self.raw_query.is_empty() {
            out.push('?');
            out.push_str(&self.raw_query);
        }
        if !self.fragment.is_empty() {
            out.push('#');
            out.push_str(&escaped(&self.fragment, &self.raw_fragment, Part::Fragment));
        }
        out
    }

    fn show_authority(&self, out: &mut String) {
        let nothing = self.host.is_empty() && self.user.is_none();
        if (self.scheme.is_empty() || self.omit_host || self.path.is_empty()) && nothing {
            return;
        }
        out.push_str("//");
        if let Some((name, password)) = &self.user {
            out.push_str(&escape(name, Part::UserPassword));
            if let Some(password) = password {
                out.push(':');
                out.push_str(&escape(password, Part::UserPassword));
            }
            out.push('@');
        }
        out.push_str(&escape(&self.host, Part::Host));
    }
}

fn escaped(plain: &[u8], raw: &str, part: Part) -> String {
    let raw_is_proper = !raw.is_empty() && is_valid_encoded(raw, part);
    if raw_is_proper {
        raw.to_owned()
    } else if part == Part::Path && plain == b"*" {
        "*".to_owned()
    } else {
        escape(plain, part)
    }
}

/// The scheme and the remaining text.
fn scheme(text: &str) -> Result<(&str, &str), String> {
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && !"+-.".contains(letter));
    let starts_well = text.starts_with(|letter: char| letter.is_ascii_alphabetic());
    match end.and_then(|end| text.split_at_checked(end)) {
        Some(("", rest)) if rest.starts_with(':') => Err("missing protocol scheme".to_owned()),
        Some((scheme, rest)) if starts_well => match rest.strip_prefix(':') {
            Some(rest) => Ok((scheme, rest)),
            None => Ok(("", text)),
        },
        _ => Ok(("", text)),
    }
}

fn is_optional_port(text: &str) -> bool {
    text.is_empty()
        || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn parse_host(scheme: &str, host: &str) -> Result<Vec<u8>, String> {
    match host.rfind('[') {
        Some(0) => return parse_bracketed(host),
        Some(_) => return Err("invalid IP-literal".to_owned()),
        None => {}
    }
    // With several colons, the port starts at the first one for HTTP and at the last one for other schemes, as in Go.
    let colon = if matches!(scheme, "http" | "https") { host.find(':') } else { host.rfind(':') };
    let port = colon.and_then(|colon| host.get(colon..)).unwrap_or_default();
    if is_optional_port(port) {
        unescape(host, Part::Host)
    } else {
        Err("invalid port after host".to_owned())
    }
}

fn parse_bracketed(host: &str) -> Result<Vec<u8>, String> {
    let (address, port) = host.rsplit_once(']').ok_or("missing ']' in host")?;
    if !is_optional_port(port) {
        return Err("invalid port after host".to_owned());
    }
    let address = address.strip_prefix('[').unwrap_or(address);
    let address = match address.find("%25").and_then(|zone| address.split_at_checked(zone)) {
        Some((address, zone)) => [unescape(address, Part::Host)?, unescape(zone, Part::Zone)?].concat(),
        None => unescape(address, Part::Host)?,
    };
    let wrong = || "invalid host: not an IP address".to_owned();
    let text = std::str::from_utf8(&address).map_err(|_| wrong())?;
    let bare = match text.split_once('%') {
        Some((_, "")) => return Err(wrong()),
        Some((bare, _)) => bare,
        None => text,
    };
    match bare.parse() {
        Ok(IpAddr::V6(_)) => Ok([b"[".as_slice(), &address, b"]", port.as_bytes()].concat()),
        Ok(IpAddr::V4(_)) => Err("invalid IP-literal".to_owned()),
        Err(_) => Err(wrong()),
    }
}
