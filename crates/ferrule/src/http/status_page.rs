//! `/ferrule/`: the page for people, as files that are part of the program.
//!
//! The files are static; all data comes from `/ferrule/v1/…` and is put into the page as text. Paths in them are relative, so that
//! the page works behind a prefix (`kubectl proxy`). Nothing on it changes anything.

use super::{Method, Request, Response};

const PREFIX: &str = "/ferrule/";

/// Nothing but our own files, no inline script or style, no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

struct Asset {
    name: &'static str,
    media: &'static str,
    text: &'static str,
}

macro_rules! asset {
    ($name:literal, $media:expr) => {
        Asset { name: $name, media: $media, text: include_str!(concat!("status_page/", $name)) }
    };
}

const ASSETS: [Asset; 13] = [
    asset!("index.html", HTML),
    asset!("page.css", CSS),
    asset!("icon.svg", SVG),
    asset!("app.js", SCRIPT),
    asset!("dom.js", SCRIPT),
    asset!("ask.js", SCRIPT),
    asset!("charts.js", SCRIPT),
    asset!("parts.js", SCRIPT),
    asset!("overview.js", SCRIPT),
    asset!("services.js", SCRIPT),
    asset!("service.js", SCRIPT),
    asset!("explain.js", SCRIPT),
    asset!("events.js", SCRIPT),
];

/// Whether a path is the page's. Its answers are those of `inspect_handler`.
pub fn is_below(path: &str) -> bool {
    path == PREFIX.trim_end_matches('/') || path.starts_with(PREFIX)
}

/// One of its files, or 404.
pub fn page(request: &Request) -> Response {
    let response = match (request.method, request.path.strip_prefix(PREFIX)) {
        (Method::Put | Method::Delete | Method::Other, _) => {
            Response::text(405, "there is nothing to change here\n").with("allow", "GET, HEAD")
        }
        // Relative, since a proxy may have removed a prefix.
        (Method::Get, None) => Response::text(308, "").with("location", "ferrule/"),
        (Method::Get, Some(name)) => file(name),
    };
    response
        .with("content-security-policy", POLICY)
        .with("referrer-policy", "no-referrer")
        .with("cross-origin-resource-policy", "same-origin")
        .with("cache-control", "no-cache")
}

fn file(name: &str) -> Response {
    let name = if name.is_empty() { "index.html" } else { name };
    match ASSETS.iter().find(|asset| asset.name == name) {
        Some(asset) => Response::new(asset.media, 200, asset.text),
        None => Response::not_found(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header<'a>(response: &'a Response, name: &str) -> &'a str {
        response.headers.iter().find(|(found, _)| *found == name).map_or("", |(_, value)| value)
    }

    #[test]
    fn files_come_with_a_strict_policy_and_nothing_else_is_there() {
        for path in
            ["/ferrule/", "/ferrule/page.css", "/ferrule/app.js", "/ferrule/../etc/passwd", "/ferrule/x"]
        {
            let response = page(&Request::get(path));
            let is_file = ASSETS.iter().any(|asset| path.ends_with(asset.name)) || path == "/ferrule/";
            assert_eq!(response.status, if is_file { 200 } else { 404 }, "{path}");
            assert!(
                header(&response, "content-security-policy")
                    .starts_with("default-src 'none'; script-src 'self';")
            );
            assert_eq!(header(&response, "x-content-type-options"), "nosniff");
            assert_eq!(header(&response, "referrer-policy"), "no-referrer");
            assert!(response.headers.iter().all(|(name, _)| !name.starts_with("access-control-")));
        }
        let redirect = page(&Request::get("/ferrule"));
        assert_eq!((redirect.status, header(&redirect, "location")), (308, "ferrule/"));
        for method in [Method::Put, Method::Delete, Method::Other] {
            assert_eq!(page(&Request { method, ..Request::get("/ferrule/") }).status, 405);
        }
    }

    #[test]
    fn the_page_is_small_refers_to_nothing_outside_and_makes_no_markup_of_text() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.text.len()).sum();
        assert!(bytes < 100 << 10, "{bytes} bytes");
        for asset in &ASSETS {
            let text = asset.text.replace("http://www.w3.org/2000/svg", "");
            for banned in [
                "http://",
                "https://",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
            ] {
                assert!(!text.contains(banned), "{}: {banned}", asset.name);
            }
            let inline = [" style=", " onclick=", " onload=", "<script>", "<style", "href=\"/", "src=\"/"];
            for banned in inline.into_iter().filter(|_| asset.media == HTML) {
                assert!(!text.contains(banned), "{}: {banned}", asset.name);
            }
        }
    }
}
