//! The login page, and what protects logging in and out from other sites.

use axum::http::{HeaderMap, Uri, header};
use maud::{DOCTYPE, Markup, html};

use super::super::query::encoded;

/// Why the login page is shown. The address has only the word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Nobody has logged in.
    None,
    /// The session, or its token, has expired.
    Expired,
    /// The user has logged out.
    LoggedOut,
    /// The API server did not accept the token that was sent.
    Rejected,
    /// The token cannot be one.
    Malformed,
    /// The API server does not answer.
    Unavailable,
}

impl Reason {
    pub(super) fn of(word: &str) -> Self {
        match word {
            "expired" => Self::Expired,
            "logged-out" => Self::LoggedOut,
            _ => Self::None,
        }
    }

    fn word(self) -> Option<&'static str> {
        match self {
            Self::Expired => Some("expired"),
            Self::LoggedOut => Some("logged-out"),
            Self::None | Self::Rejected | Self::Malformed | Self::Unavailable => None,
        }
    }

    fn text(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Expired => Some(
                "Your session has ended: it or its token has expired, or the token was revoked. Log in again.",
            ),
            Self::LoggedOut => Some("You have logged out. The token itself stays valid until it expires."),
            Self::Rejected => Some(
                "The API server does not accept this token: it may have expired, be for another cluster, or be incomplete. Create a new one.",
            ),
            Self::Malformed => {
                Some("This is not a bearer token: it is empty, too long, or has spaces in it.")
            }
            Self::Unavailable => {
                Some("The API server could not be asked about the token. Try again in a moment.")
            }
        }
    }
}

/// The address of the login page.
pub(super) fn address(next: &str, reason: Reason) -> String {
    let why = reason.word().map(|word| format!("&why={word}")).unwrap_or_default();
    format!("/login?next={}{why}", encoded(next))
}

/// The address of this dashboard that a text names, or the first page.
pub(super) fn page_of(next: &str) -> &str {
    // `//` and `/\` would begin another host.
    let is_path = next.starts_with('/') && !next.starts_with("//") && !next.contains('\\');
    let is_plain = next.chars().all(|character| !character.is_control());
    if is_path && is_plain && !next.starts_with("/login") && !next.starts_with("/logout") {
        next
    } else {
        "/"
    }
}

/// The page.
pub(super) fn page(next: &str, reason: Reason) -> Markup {
    document(
        &html! {
            body {
                main #content tabindex="-1" {
                    section .login {
                        h1 { "Log in to kross" }
                        @if let Some(text) = reason.text() { p .notice role="alert" { (text) } }
                        p { "The dashboard shows what the owner of a token may read in this cluster, and nothing else." }
                        form method="post" action="/login" {
                            input type="hidden" name="next" value=(next);
                            label for="token" { "Bearer token" }
                            input id="token" name="token" type="password" required autocomplete="off" spellcheck="false" autofocus
                                aria-describedby="token-help";
                            button type="submit" { "Log in" }
                        }
                        p #token-help .note { "A token of a ServiceAccount that may read instances:" }
                        p .command { code { "kubectl create token NAME --namespace NAMESPACE" } }
                    }
                }
            }
        },
        None,
    )
}

/// A page that leads to another address of this dashboard. Browsers do not send the cookie with the first request that a link on
/// another site makes, but they do with the one that this page makes.
pub(super) fn leading_to(address: &str) -> Markup {
    document(
        &html! { body { main { p { a href=(address) { "Continue to the dashboard" } } } } },
        Some(address),
    )
}

fn document(body: &Markup, refresh: Option<&str>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                @if let Some(address) = refresh { meta http-equiv="refresh" content=(format!("0; url={address}")); }
                title { "Log in · kross" }
                link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/assets/dashboard.css";
            }
            (body)
        }
    }
}

/// Whether a form was sent by a page of this dashboard, or by no browser.
pub(super) fn is_own(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if let Some(site) = text("sec-fetch-site") {
        return matches!(site, "same-origin" | "none");
    }
    let Some(origin) = text(header::ORIGIN.as_str()) else { return true };
    let origin: Option<Uri> = origin.parse().ok();
    let host = origin.as_ref().and_then(Uri::authority).map(|authority| authority.as_str().to_owned());
    host.is_some() && host.as_deref() == text(header::HOST.as_str())
}

/// Whether a link on another site made the browser send a request.
pub(super) fn is_from_another_site(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none")
}

/// Whether the client shows pages, and does not read data.
pub(super) fn accepts(headers: &HeaderMap, media: &str) -> bool {
    headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains(media))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_to_pages_of_this_dashboard_only() {
        for page in ["/", "/instances?q=a&kind=B", "/instances/x.kro.run/a/b?node=c"] {
            assert_eq!(page_of(page), page);
        }
        for other in [
            "",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "/a\r\nSet-Cookie: x",
            "/login",
            "/logout",
        ] {
            assert_eq!(page_of(other), "/", "{other}");
        }
        assert!(address("/instances?q=1", Reason::Expired) == "/login?next=%2Finstances%3Fq%3D1&why=expired");
        for reason in [Reason::Expired, Reason::LoggedOut] {
            assert_eq!(Reason::of(reason.word().unwrap()), reason);
        }
        assert_eq!(Reason::of("<b>anything</b>"), Reason::None);
    }

    #[test]
    fn forms_of_other_sites_are_recognized() {
        let own = |pairs: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, value.parse().unwrap());
            }
            is_own(&headers)
        };
        assert!(own(&[]) && own(&[("sec-fetch-site", "same-origin")]) && own(&[("sec-fetch-site", "none")]));
        assert!(own(&[("origin", "https://kross.example:8443"), ("host", "kross.example:8443")]));
        for site in ["cross-site", "same-site"] {
            assert!(!own(&[("sec-fetch-site", site), ("origin", "https://a"), ("host", "a")]), "{site}");
        }
        for origin in ["null", "https://evil.example", "https://kross.example.evil.example"] {
            assert!(!own(&[("origin", origin), ("host", "kross.example")]), "{origin}");
        }
    }
}
