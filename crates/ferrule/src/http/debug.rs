//! `/debug/flags`: the log's verbosity, to be changed while running. Only where profiling is allowed.

use super::{Answer, Method, Question};
use crate::logging::LogHandle;

/// The pages under `/debug/`, as far as they are known.
pub fn page(question: &Question, log: &LogHandle) -> Option<Answer> {
    match question.path.as_str() {
        "/debug/flags" | "/debug/flags/" => Some(index()),
        "/debug/flags/v" => Some(verbosity(question, log)),
        _ => None,
    }
}

fn index() -> Answer {
    let page = "<html>\n<head><title>/debug/flags/</title></head>\n<body>\n/debug/flags/<br>\n\
                <a href=\"v\">v</a>\n</body>\n</html>\n";
    Answer::of("text/html; charset=utf-8", 200, page)
}

fn verbosity(question: &Question, log: &LogHandle) -> Answer {
    if question.method != Method::Put {
        return Answer::text(406, "unsupported http method\n");
    }
    let text = String::from_utf8_lossy(&question.body);
    match text.trim().parse::<u32>() {
        Ok(verbosity) => {
            log.set_verbosity(verbosity);
            Answer::text(200, format!("successfully set verbosity to {verbosity}\n"))
        }
        Err(error) => Answer::text(400, format!("cannot read {:?} as a verbosity: {error}\n", text.trim())),
    }
}
