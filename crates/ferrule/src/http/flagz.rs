//! `/flagz`: the flags this process was started with.

use super::zpages::{Form, form, object_page, text_page};
use super::{Request, Response};

/// The page, for flags with their values, sorted by name.
pub fn page(request: &Request, flags: &[(String, String)]) -> Response {
    let object = || {
        let flags: serde_json::Map<String, serde_json::Value> =
            flags.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        serde_json::Map::from_iter([("flags".to_owned(), flags.into())])
    };
    match form(request, "Flagz") {
        Ok(Form::Text) => text_page("flagz", flags.iter().cloned()),
        Ok(Form::Object { format, version }) => object_page(format, version, "Flagz", object()),
        Err(not_acceptable) => not_acceptable,
    }
}
