//! Questions as the query of a URL, and back. Commands write them, the running proxy reads them.

use std::fmt::Write as _;
use std::net::IpAddr;

use ferrule_model::{ServiceName, parse_ip};

use super::{
    CountersQuestion, ExplainQuestion, Origin, PlanQuestion, QuestionError, ServiceState, ServicesQuestion,
    Target,
};

/// More Services than these are not in one page, whatever is asked for.
const MAX_PAGE: usize = 500;
const DEFAULT_PAGE: usize = 50;
/// The longest name that there can be, and more.
const MAX_SEARCH_BYTES: usize = 400;

/// Parameters of a query, decoded.
#[derive(Clone, Debug, Default)]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads `name=value&…`.
    pub fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Self(pairs.map(|(name, value)| (decoded(name), decoded(value))).collect())
    }

    /// The parameters as a query.
    pub fn encoded(&self) -> String {
        let pairs = self.0.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
        pairs.collect::<Vec<_>>().join("&")
    }

    /// Adds one.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.push((name.to_owned(), value.into()));
    }

    /// The value of one, if it is there.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Fails if there is a parameter that is not among these: a misspelt filter must not be ignored.
    fn only(&self, names: &[&str]) -> Result<(), QuestionError> {
        match self.0.iter().find(|(name, _)| !names.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, _)) if names.is_empty() => {
                Err(QuestionError(format!("there is no parameter {name:?} here, or any other")))
            }
            Some((name, _)) => {
                Err(QuestionError(format!("there is no parameter {name:?}, only {}", names.join(", "))))
            }
        }
    }
}

/// Reads a question about a packet.
pub fn explain_question(parameters: &Parameters) -> Result<ExplainQuestion, QuestionError> {
    parameters.only(&["from", "origin", "to", "interface", "kernel"])?;
    let to = parameters.get("to").ok_or_else(|| QuestionError::new("the parameter \"to\" is missing"))?;
    let from = parameters.get("from").filter(|from| !from.is_empty()).map(address).transpose()?;
    Ok(ExplainQuestion {
        origin: origin(parameters.get("origin"), from)?,
        to: Target::parse(to)?,
        interface: parameters.get("interface").map(str::to_owned),
    })
}

/// Who sends a packet, by the kind and the address given.
pub fn origin(kind: Option<&str>, from: Option<IpAddr>) -> Result<Origin, QuestionError> {
    match (kind.unwrap_or("address"), from) {
        ("address", Some(ip)) => Ok(Origin::Address(ip)),
        ("pod", Some(ip)) => Ok(Origin::Pod(ip)),
        ("node", None) => Ok(Origin::Node),
        ("outside", ip) => Ok(Origin::Outside(ip)),
        ("address" | "pod", None) => Err(QuestionError::new("the source address is missing")),
        ("node", Some(_)) => Err(QuestionError::new("the node sends from its own address, name no other")),
        (kind, _) => Err(QuestionError(format!("{kind:?} is not one of address, pod, node, outside"))),
    }
}

/// Reads a question about the plan.
pub fn plan_question(parameters: &Parameters) -> Result<PlanQuestion, QuestionError> {
    parameters.only(&["namespace", "service", "address", "limit"])?;
    let text = |name: &str| parameters.get(name).map(str::to_owned);
    let number = |text: &str| text.parse().map_err(|_| QuestionError(format!("{text:?} is not a number")));
    Ok(PlanQuestion {
        namespace: text("namespace"),
        service: text("service"),
        address: parameters.get("address").map(address).transpose()?,
        limit: parameters.get("limit").map(number).transpose()?,
    })
}

/// Reads a question about the list of Services.
pub fn services_question(parameters: &Parameters) -> Result<ServicesQuestion, QuestionError> {
    parameters.only(&["search", "namespace", "state", "offset", "limit"])?;
    let number = |name: &str, default: usize| match parameters.get(name).filter(|text| !text.is_empty()) {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| QuestionError(format!("{name}={text:?} is not a number"))),
    };
    let search = parameters.get("search").unwrap_or_default().trim().to_lowercase();
    if search.len() > MAX_SEARCH_BYTES {
        return Err(QuestionError(format!("a search is at most {MAX_SEARCH_BYTES} bytes long")));
    }
    let text = |name: &str| parameters.get(name).filter(|text| !text.is_empty()).map(str::to_owned);
    Ok(ServicesQuestion {
        search,
        namespace: text("namespace"),
        state: parameters
            .get("state")
            .filter(|text| !text.is_empty())
            .map(ServiceState::parse)
            .transpose()?,
        offset: number("offset", 0)?,
        limit: number("limit", DEFAULT_PAGE)?.clamp(1, MAX_PAGE),
    })
}

/// Reads the name of the one Service that is asked about.
pub fn service_question(parameters: &Parameters) -> Result<ServiceName, QuestionError> {
    parameters.only(&["service"])?;
    let text = parameters.get("service").unwrap_or_default();
    if text.split_once('/').is_none_or(|(namespace, name)| namespace.is_empty() || name.is_empty()) {
        return Err(QuestionError::new("the parameter \"service\" is missing: NAMESPACE/NAME"));
    }
    Ok(ServiceName::new(text))
}

/// Checks a question without parameters.
pub fn bare_question(parameters: &Parameters) -> Result<(), QuestionError> {
    parameters.only(&[])
}

/// Reads a question about counters.
pub fn counters_question(parameters: &Parameters) -> Result<CountersQuestion, QuestionError> {
    parameters.only(&["namespace", "service"])?;
    let text = |name: &str| parameters.get(name).filter(|text| !text.is_empty()).map(str::to_owned);
    Ok(CountersQuestion { namespace: text("namespace"), service: text("service") })
}

/// Checks a question about differences.
pub fn diff_question(parameters: &Parameters) -> Result<(), QuestionError> {
    parameters.only(&["manifests"])
}

/// An address, in brackets or not.
pub fn address(text: &str) -> Result<IpAddr, QuestionError> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    parse_ip(bare).ok_or_else(|| QuestionError(format!("{text:?} is not an IP address")))
}

fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// What is no valid escape stays as it is.
fn decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|digits| byte == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(escaped.unwrap_or(if byte == b'+' { b' ' } else { byte }));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&out).into_owned()
}
