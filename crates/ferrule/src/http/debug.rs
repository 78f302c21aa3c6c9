//! `/debug/flags`: the log's verbosity, to be changed while running. Only where profiling is allowed.

use super::{Method, Request, Response};
use crate::logging::LogHandle;

/// The pages under `/debug/`; `None` for any other path.
pub fn page(request: &Request, log: &LogHandle) -> Option<Response> {
    match request.path.as_str() {
        "/debug/flags" | "/debug/flags/" => Some(index()),
        "/debug/flags/v" => Some(verbosity(request, log)),
        _ => None,
    }
}

fn index() -> Response {
    let page = "<html>\n<head><title>/debug/flags/</title></head>\n<body>\n/debug/flags/<br>\n\
                <a href=\"v\">v</a>\n</body>\n</html>\n";
    Response::new("text/html; charset=utf-8", 200, page)
}

fn verbosity(request: &Request, log: &LogHandle) -> Response {
    if request.method != Method::Put {
        return Response::text(406, "unsupported http method\n");
    }
    let text = String::from_utf8_lossy(&request.body);
    match text.trim().parse::<u32>() {
        Ok(verbosity) => {
            log.set_verbosity(verbosity);
            Response::text(200, format!("successfully set verbosity to {verbosity}\n"))
        }
        Err(error) => Response::text(400, format!("cannot read {:?} as a verbosity: {error}\n", text.trim())),
    }
}
