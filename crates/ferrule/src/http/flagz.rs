//! `/flagz`: the flags this program was started with.

use super::zpages::{Form, for_people, form, structured};
use super::{Answer, Question};

/// The page, for flags with their values, sorted by name.
pub fn page(question: &Question, flags: &[(String, String)]) -> Answer {
    let object = || {
        let flags: serde_json::Map<String, serde_json::Value> =
            flags.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        serde_json::Map::from_iter([("flags".to_owned(), flags.into())])
    };
    match form(question, "Flagz") {
        Ok(Form::Text) => for_people("flagz", flags.iter().cloned()),
        Ok(Form::Json(version)) => structured((false, version), "Flagz", object()),
        Ok(Form::Yaml(version)) => structured((true, version), "Flagz", object()),
        Err(refusal) => refusal,
    }
}
