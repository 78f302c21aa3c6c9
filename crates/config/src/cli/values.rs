//! Texts of flag values to values, and back to the texts Go prints.
//!
//! A list flag's first use replaces its default and later ones append; the parser hands the earlier value in.

use std::collections::BTreeMap;

use ferrule_model::parse_ip;

use super::flags::{Flag, FlagKind};
use super::version;
use crate::config::Value;
use crate::config::v1alpha1::VModuleItem;
use crate::go::{GoDuration, Quantity, format_float32, parse_bool, parse_digits, parse_float32, parse_int32};

/// Reads a value for a flag; `earlier` is what an earlier use of the same flag gave.
pub fn parse_value(flag: &Flag, text: &str, earlier: Option<&Value>) -> Result<Value, String> {
    match flag.kind {
        FlagKind::Bool => parse_bool(text).map(Value::Bool).ok_or_else(|| not_a_bool(text)),
        FlagKind::Text | FlagKind::ProxyMode | FlagKind::LocalMode => Ok(Value::Text(text.to_owned())),
        FlagKind::Int32 => parse_int32(text)
            .map(Value::Int32)
            .ok_or_else(|| format!("{text:?} is not a whole number of 32 bits")),
        FlagKind::Float32 => {
            parse_float32(text).map(Value::Float32).ok_or_else(|| format!("{text:?} is not a finite number"))
        }
        FlagKind::Duration => GoDuration::parse(text).map(Value::Duration).map_err(|error| error.to_string()),
        FlagKind::Ip => ip(flag, text),
        FlagKind::IpPort => ip_port(flag, text),
        FlagKind::TextList => text_list(text, earlier),
        FlagKind::Gates => gates(text, earlier),
        FlagKind::Level => parse_digits(text).map(Value::Uint32).filter(level_fits).ok_or_else(|| {
            format!("{text:?} is not a verbosity, which is a whole number from 0 to {}", i32::MAX)
        }),
        FlagKind::VModule => vmodule(text, earlier),
        FlagKind::Quantity => Quantity::parse(text).map(Value::Quantity).map_err(|error| error.to_string()),
        FlagKind::Version => version::parse_request(text).map(|()| Value::Text(text.to_owned())),
    }
}

/// The value of a flag that was not given.
pub fn default_value(flag: &Flag) -> Value {
    match flag.kind {
        FlagKind::TextList => Value::TextList(Vec::new()),
        FlagKind::Gates => Value::Gates(BTreeMap::new()),
        FlagKind::VModule => Value::VModule(Vec::new()),
        // The table's defaults are texts Go prints, which read back; a test goes through all of them.
        _ => parse_value(flag, flag.default, None).unwrap_or(Value::Absent),
    }
}

/// The text Go prints for a flag's value, as in its help and in the log of all flags.
pub fn value_text(value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::Int32(value) => value.to_string(),
        Value::Uint32(value) => value.to_string(),
        Value::Float32(value) => format_float32(*value),
        Value::Text(value) => value.clone(),
        Value::Duration(value) => value.to_string(),
        Value::Flush(value) => value.every.to_string(),
        Value::TextList(value) => format!("[{}]", value.join(",")),
        Value::Gates(value) => {
            value.iter().map(|(name, on)| format!("{name}={on}")).collect::<Vec<_>>().join(",")
        }
        Value::VModule(value) => vmodule_text(value),
        Value::Quantity(value) => value.to_string(),
        Value::Absent => String::new(),
    }
}

/// `pattern=N,…`
pub fn vmodule_text(items: &[VModuleItem]) -> String {
    items.iter().map(|item| format!("{}={}", item.file_pattern, item.verbosity)).collect::<Vec<_>>().join(",")
}

fn not_a_bool(text: &str) -> String {
    format!("{text:?} is neither true nor false")
}

fn level_fits(value: &Value) -> bool {
    matches!(value, Value::Uint32(level) if i32::try_from(*level).is_ok())
}

fn ip(flag: &Flag, text: &str) -> Result<Value, String> {
    if text.is_empty() {
        return Ok(Value::Text(flag.default.to_owned()));
    }
    match parse_ip(text) {
        Some(_) => Ok(Value::Text(text.to_owned())),
        None => Err(format!("{text:?} is not a valid IP address")),
    }
}

fn ip_port(flag: &Flag, text: &str) -> Result<Value, String> {
    if text.is_empty() {
        return Ok(Value::Text(flag.default.to_owned()));
    }
    if parse_ip(text).is_some() {
        return Ok(Value::Text(text.to_owned()));
    }
    let (host, port) =
        split_host_port(text).ok_or_else(|| format!("{text:?} is neither an IP address nor IP:port"))?;
    if parse_ip(host).is_none() {
        return Err(format!("{host:?} is not a valid IP address"));
    }
    match parse_digits::<u16>(port) {
        Some(_) => Ok(Value::Text(text.to_owned())),
        None => Err(format!("{port:?} is not a port, which is a number from 0 to 65535")),
    }
}

/// Splits `host:port` or `[host]:port` as Go does; `None` if the text has another form.
pub fn split_host_port(text: &str) -> Option<(&str, &str)> {
    let (host, port) = text.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    let stray = |text: &str| text.contains(['[', ']']);
    (!stray(host) && !stray(port)).then_some((host, port))
}

/// One line of CSV, since that is what pflag reads: `a,"b,c"` are two entries.
fn text_list(text: &str, earlier: Option<&Value>) -> Result<Value, String> {
    let mut list = match earlier {
        Some(Value::TextList(list)) => list.clone(),
        _ => Vec::new(),
    };
    if !text.is_empty() {
        list.extend(csv_line(text)?);
    }
    Ok(Value::TextList(list))
}

fn csv_line(text: &str) -> Result<Vec<String>, String> {
    let mut entries = Vec::new();
    let mut rest = text;
    loop {
        let (entry, after) = csv_entry(rest)?;
        entries.push(entry);
        match after {
            Some(after) => rest = after,
            None => return Ok(entries),
        }
    }
}

/// Reads one entry and returns what follows its comma, if there is one.
fn csv_entry(text: &str) -> Result<(String, Option<&str>), String> {
    let Some(quoted) = text.strip_prefix('"') else {
        let (entry, after) = text.split_once(',').map_or((text, None), |(entry, after)| (entry, Some(after)));
        if entry.contains('"') {
            return Err(format!("a stray quote in {entry:?}"));
        }
        return Ok((entry.to_owned(), after));
    };
    let mut entry = String::new();
    let mut rest = quoted;
    loop {
        let (part, after) = rest.split_once('"').ok_or("a quote is not closed")?;
        entry.push_str(part);
        if let Some(after) = after.strip_prefix('"') {
            entry.push('"');
            rest = after;
        } else if after.is_empty() {
            return Ok((entry, None));
        } else {
            let after = after.strip_prefix(',').ok_or("text follows a closing quote")?;
            return Ok((entry, Some(after)));
        }
    }
}

fn gates(text: &str, earlier: Option<&Value>) -> Result<Value, String> {
    let mut gates = match earlier {
        Some(Value::Gates(gates)) => gates.clone(),
        _ => BTreeMap::new(),
    };
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or_else(|| format!("{pair:?} has no =true or =false"))?;
        let on = parse_bool(value.trim()).ok_or_else(|| format!("{name}: {}", not_a_bool(value)))?;
        gates.insert(name.trim().to_owned(), on);
    }
    Ok(Value::Gates(gates))
}

fn vmodule(text: &str, earlier: Option<&Value>) -> Result<Value, String> {
    let mut items = match earlier {
        Some(Value::VModule(items)) => items.clone(),
        _ => Vec::new(),
    };
    for item in text.split(',').filter(|item| !item.is_empty()) {
        items.push(vmodule_item(item)?);
    }
    Ok(Value::VModule(items))
}

fn vmodule_item(text: &str) -> Result<VModuleItem, String> {
    let refusal = || format!("{text:?} has not the form pattern=N");
    let (pattern, level) = text.split_once('=').ok_or_else(refusal)?;
    let verbosity: u32 = parse_digits(level).ok_or_else(refusal)?;
    if pattern.is_empty() || level.contains('=') || i32::try_from(verbosity).is_err() {
        return Err(refusal());
    }
    Ok(VModuleItem { file_pattern: pattern.to_owned(), verbosity })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::flags;

    fn check(name: &str, text: &str) -> Result<String, String> {
        parse_value(flags::find(name).expect("a flag"), text, None).map(|value| value_text(&value))
    }

    #[test]
    fn every_default_reads_and_prints_as_itself() {
        for flag in flags::all() {
            assert_eq!(value_text(&default_value(flag)), flag.default, "{}", flag.name);
        }
    }

    #[test]
    fn addresses_are_checked_at_once_and_empty_keeps_the_default() {
        assert_eq!(check("bind-address", ""), Ok("0.0.0.0".to_owned()));
        assert_eq!(check("healthz-bind-address", "1.2.3.4"), Ok("1.2.3.4".to_owned()));
        assert_eq!(check("healthz-bind-address", "[::1]:0"), Ok("[::1]:0".to_owned()));
        for bad in ["1.2.3.4:99999", "1.2.3.4:x", "[::1]", "localhost:80", "1.2.3:80", "x"] {
            assert!(check("healthz-bind-address", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn lists_read_as_csv() {
        assert_eq!(check("nodeport-addresses", "a,b"), Ok("[a,b]".to_owned()));
        assert_eq!(check("nodeport-addresses", "\"a,b\",c"), Ok("[a,b,c]".to_owned()));
        assert_eq!(check("nodeport-addresses", ""), Ok("[]".to_owned()));
        assert!(check("nodeport-addresses", "\"a").is_err());
    }

    #[test]
    fn gates_and_vmodule_refuse_half_pairs() {
        assert_eq!(check("feature-gates", "B=false,A=true"), Ok("A=true,B=false".to_owned()));
        assert!(check("feature-gates", "A").is_err());
        assert!(check("feature-gates", "A=maybe").is_err());
        assert_eq!(check("vmodule", "a*=3,b=4"), Ok("a*=3,b=4".to_owned()));
        assert!(check("vmodule", "a").is_err());
        assert!(check("vmodule", "a=b=3").is_err());
    }

    #[test]
    fn patterns_of_a_repeated_vmodule_add_up() {
        let flag = flags::find("vmodule").expect("a flag");
        let first = parse_value(flag, "a=1", None).expect("a pattern");
        let both = parse_value(flag, "b=2", Some(&first)).expect("a pattern");
        assert_eq!(value_text(&both), "a=1,b=2");
        let still_both = parse_value(flag, "", Some(&both)).expect("nothing more");
        assert_eq!(value_text(&still_both), "a=1,b=2");
    }
}
