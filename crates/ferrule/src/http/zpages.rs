//! Content negotiation of `/flagz` and `/statusz`: text for people, or JSON and YAML for programs.

use std::fmt::Write as _;

use super::{Request, Response};

const GROUP: &str = "config.k8s.io";
/// Between a name and a value in the text form. Varies, so that no program parses it.
const DELIMITERS: [&str; 4] = [":", ": ", "=", " "];

/// The negotiated form of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Text for people.
    Text,
    /// An API object.
    Object {
        /// JSON or YAML.
        format: Format,
        /// The version of the API.
        version: &'static str,
    },
}

/// How an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
}

/// The form that the request accepts, or the response 406. `kind` is `Statusz` or `Flagz`.
pub fn form(request: &Request, kind: &str) -> Result<Form, Response> {
    let mut wanted = request.accept.split(',').map(str::trim).filter(|part| !part.is_empty()).peekable();
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
        "application/json" if is_ours => Some(Form::Object { format: Format::Json, version }),
        "application/yaml" if is_ours => Some(Form::Object { format: Format::Yaml, version }),
        _ => None,
    }
}

fn unacceptable(kind: &str) -> Response {
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
    Response::json(406, format!("{status}\n"))
}

fn with_parameters(media: &str, version: &str, kind: &str) -> String {
    format!("{media};g={GROUP};v={version};as={kind}")
}

/// An API object of this kind and version.
pub fn object_page(
    format: Format,
    version: &str,
    kind: &str,
    mut object: serde_json::Map<String, serde_json::Value>,
) -> Response {
    object.insert("kind".to_owned(), kind.into());
    object.insert("apiVersion".to_owned(), format!("{GROUP}/{version}").into());
    object.insert("metadata".to_owned(), serde_json::json!({ "name": "kube-proxy" }));
    let value = serde_json::Value::Object(object);
    let (media, body) = match format {
        Format::Json => ("application/json", format!("{value}\n")),
        Format::Yaml => ("application/yaml", serde_saphyr::to_string(&value).unwrap_or_default()),
    };
    let response = Response::new(&with_parameters(media, version, kind), 200, body);
    if version == "v1alpha1" {
        let warning = format!("299 - \"{GROUP}/v1alpha1 {kind} is deprecated, use v1beta1\"");
        return response.with("warning", warning);
    }
    response
}

/// Text for people: a title, a warning, and pairs with a delimiter that varies.
pub fn text_page(title: &str, pairs: impl IntoIterator<Item = (String, String)>) -> Response {
    let nanoseconds = jiff::Timestamp::now().subsec_nanosecond();
    let delimiter = DELIMITERS[usize::try_from(nanoseconds / 7).unwrap_or_default() % DELIMITERS.len()];
    let mut text = format!(
        "\nkube-proxy {title}\nWarning: This page is for people to read; its form may change at any time and must not be parsed.\n\n"
    );
    for (name, value) in pairs {
        let _ = writeln!(text, "{name}{delimiter}{value}");
    }
    Response::text(200, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negotiated(accept: &str) -> Result<Form, Response> {
        form(&Request { accept: accept.to_owned(), ..Request::get("/statusz") }, "Statusz")
    }

    #[test]
    fn programs_must_say_which_structure_they_know() {
        for text in ["", "*/*", "text/plain", "text/html, */*;q=0.8"] {
            assert_eq!(negotiated(text), Ok(Form::Text), "{text}");
        }
        assert_eq!(
            negotiated("application/json;v=v1beta1;g=config.k8s.io;as=Statusz"),
            Ok(Form::Object { format: Format::Json, version: "v1beta1" })
        );
        assert_eq!(
            negotiated("application/yaml; as=Statusz; g=config.k8s.io; v=v1alpha1"),
            Ok(Form::Object { format: Format::Yaml, version: "v1alpha1" })
        );
        for wrong in ["application/json", "application/json;v=v1beta1;g=config.k8s.io;as=Flagz", "image/png"]
        {
            let rejected = negotiated(wrong).expect_err(wrong);
            assert_eq!(rejected.status, 406);
            assert!(String::from_utf8_lossy(&rejected.body).contains("as=Statusz"));
        }
    }
}
