//! What `/flagz` and `/statusz` share: the choice between text for people and structure for programs.

use std::fmt::Write as _;

use super::{Answer, Question};

const GROUP: &str = "config.k8s.io";
/// Between a name and a value in the text form; which one is used changes, so that nobody parses it.
const DELIMITERS: [&str; 4] = [":", ": ", "=", " "];

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Text for people.
    Text,
    /// An object of this version of the API.
    Json(&'static str),
    /// The same in YAML.
    Yaml(&'static str),
}

/// The form somebody asks for, or the answer that there is none such. `kind` is `Statusz` or `Flagz`.
pub fn form(question: &Question, kind: &str) -> Result<Form, Answer> {
    let mut wanted = question.accept.split(',').map(str::trim).filter(|part| !part.is_empty()).peekable();
    if wanted.peek().is_none() {
        return Ok(Form::Text);
    }
    wanted.find_map(|part| offered(part, kind)).ok_or_else(|| unacceptable(kind))
}

fn offered(part: &str, kind: &str) -> Option<Form> {
    let mut parameters = part.split(';').map(str::trim);
    let media = parameters.next()?;
    let value = |name: &str| {
        part.split(';').map(str::trim).find_map(|parameter| parameter.strip_prefix(name)?.strip_prefix('='))
    };
    let version = match value("v") {
        Some("v1beta1") => "v1beta1",
        Some("v1alpha1") => "v1alpha1",
        _ => "",
    };
    let is_ours = value("g") == Some(GROUP) && value("as") == Some(kind) && !version.is_empty();
    match media {
        "text/plain" | "*/*" | "text/*" => Some(Form::Text),
        "application/json" if is_ours => Some(Form::Json(version)),
        "application/yaml" if is_ours => Some(Form::Yaml(version)),
        _ => None,
    }
}

fn unacceptable(kind: &str) -> Answer {
    let kinds: Vec<String> = ["application/json", "application/yaml"]
        .into_iter()
        .flat_map(|media| ["v1beta1", "v1alpha1"].map(|version| with_parameters(media, version, kind)))
        .chain(["text/plain".to_owned()])
        .collect();
    let status = serde_json::json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": format!("only the following media types are accepted: {}", kinds.join(", ")),
        "reason": "NotAcceptable",
        "code": 406,
    });
    Answer::json(406, format!("{status}\n"))
}

fn with_parameters(media: &str, version: &str, kind: &str) -> String {
    format!("{media};g={GROUP};v={version};as={kind}")
}

/// A structured page: an object of this version, as JSON or as YAML.
pub fn structured(
    (is_yaml, version): (bool, &str),
    kind: &str,
    mut object: serde_json::Map<String, serde_json::Value>,
) -> Answer {
    object.insert("kind".to_owned(), kind.into());
    object.insert("apiVersion".to_owned(), format!("{GROUP}/{version}").into());
    object.insert("metadata".to_owned(), serde_json::json!({ "name": "kube-proxy" }));
    let value = serde_json::Value::Object(object);
    let (media, body) = if is_yaml {
        ("application/yaml", serde_saphyr::to_string(&value).unwrap_or_default())
    } else {
        ("application/json", format!("{value}\n"))
    };
    let answer = Answer::of(&with_parameters(media, version, kind), 200, body);
    if version == "v1alpha1" {
        let warning = format!("299 - \"{GROUP}/v1alpha1 {kind} is deprecated, use v1beta1\"");
        return answer.with("warning", warning);
    }
    answer
}

/// A page for people: a title, a word of caution, and pairs with a delimiter that is not the same every time.
pub fn for_people(title: &str, pairs: impl IntoIterator<Item = (String, String)>) -> Answer {
    let nanoseconds = jiff::Timestamp::now().subsec_nanosecond();
    let delimiter = DELIMITERS[usize::try_from(nanoseconds / 7).unwrap_or_default() % DELIMITERS.len()];
    let mut text = format!(
        "\nkube-proxy {title}\nWarning: This page is for people to read; its form may change at any time and must not be parsed.\n\n"
    );
    for (name, value) in pairs {
        let _ = writeln!(text, "{name}{delimiter}{value}");
    }
    Answer::text(200, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(accept: &str) -> Result<Form, Answer> {
        form(&Question { accept: accept.to_owned(), ..Question::get("/statusz") }, "Statusz")
    }

    #[test]
    fn programs_must_say_which_structure_they_know() {
        for text in ["", "*/*", "text/plain", "text/html, */*;q=0.8"] {
            assert_eq!(asked(text), Ok(Form::Text), "{text}");
        }
        assert_eq!(asked("application/json;v=v1beta1;g=config.k8s.io;as=Statusz"), Ok(Form::Json("v1beta1")));
        assert_eq!(
            asked("application/yaml; as=Statusz; g=config.k8s.io; v=v1alpha1"),
            Ok(Form::Yaml("v1alpha1"))
        );
        for wrong in ["application/json", "application/json;v=v1beta1;g=config.k8s.io;as=Flagz", "image/png"]
        {
            let refused = asked(wrong).expect_err(wrong);
            assert_eq!(refused.status, 406);
            assert!(String::from_utf8_lossy(&refused.body).contains("as=Statusz"));
        }
    }
}
