//! Names of specification rows (`model S1`), lists of them as written in tags, and the catalogue of all rows.

use std::fmt;

use anyhow::{Context, Result, bail};

/// One row of one specification. Ordered by letter, then by number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    pub spec: String,
    pub id: RowId,
}

/// A row's name within its specification.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowId {
    Numbered {
        prefix: String,
        number: u32,
    },
    /// For specifications whose tables have no ids, as `8.1 #3`.
    Free(String),
}

impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Numbered { prefix, number } => write!(f, "{prefix}{number}"),
            Self::Free(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.spec, self.id)
    }
}

/// Reads a list such as `model S1, S4-S6, nftables N3`: a specification holds until another is named.
pub fn parse_list(text: &str) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    let mut spec: Option<&str> = None;
    for item in text.split(',').map(str::trim) {
        let id = match item.split_once(' ') {
            Some((name, id)) if name.chars().all(|letter| letter.is_ascii_lowercase()) => {
                spec = Some(name);
                id.trim()
            }
            _ => item,
        };
        let spec = spec.ok_or_else(|| format!("`{item}` names no specification; write `model S1`"))?;
        rows.extend(parse_ids(id)?.into_iter().map(|id| Row { spec: spec.to_owned(), id }));
    }
    Ok(rows)
}

/// One id or a range `S1-S4`; what is neither is a free id, if it holds a digit.
fn parse_ids(text: &str) -> Result<Vec<RowId>, String> {
    if let Some((prefix, number)) = parse_numbered(text) {
        return Ok(vec![RowId::Numbered { prefix: prefix.to_owned(), number }]);
    }
    if let Some((first, last)) = text.split_once(['-', '–'])
        && let (Some((prefix, first)), Some((last_prefix, last))) =
            (parse_numbered(first), parse_numbered(last))
    {
        if prefix != last_prefix || last <= first {
            return Err(format!("`{text}` is no range; write it as `S1-S4`"));
        }
        return Ok((first..=last)
            .map(|number| RowId::Numbered { prefix: prefix.to_owned(), number })
            .collect());
    }
    if text.contains(|letter: char| letter.is_ascii_digit()) {
        Ok(vec![RowId::Free(text.to_owned())])
    } else {
        Err(format!("`{text}` is no row id; write it as `model S1, S4-S6`"))
    }
}

/// The ids of rows of one section, in order, with neighbours joined: `S1-S4, S7`.
pub fn as_ranges(rows: &[Row]) -> String {
    let numbers: Vec<(&str, u32)> = rows
        .iter()
        .filter_map(|row| match &row.id {
            RowId::Numbered { prefix, number } => Some((prefix.as_str(), *number)),
            RowId::Free(_) => None,
        })
        .collect();
    let runs = numbers.chunk_by(|(_, one), (_, next)| one + 1 == *next);
    let ranges = runs.map(|run| match run {
        [] => String::new(),
        [(prefix, only)] => format!("{prefix}{only}"),
        [(prefix, first), .., (_, last)] => format!("{prefix}{first}-{prefix}{last}"),
    });
    ranges.collect::<Vec<_>>().join(", ")
}

/// Capital letters, then digits without a leading zero.
fn parse_numbered(text: &str) -> Option<(&str, u32)> {
    let at = text.find(|letter: char| letter.is_ascii_digit())?;
    let (prefix, digits) = text.split_at(at);
    let capitals = !prefix.is_empty() && prefix.chars().all(|letter| letter.is_ascii_uppercase());
    let plain = !digits.starts_with('0') && digits.chars().all(|letter| letter.is_ascii_digit());
    if capitals && plain { Some((prefix, digits.parse().ok()?)) } else { None }
}

/// Every row that has to be accounted for.
#[derive(Debug)]
pub struct Catalogue {
    pub sections: Vec<Section>,
    pub free_specs: Vec<FreeSpec>,
}

/// One table of a specification: rows `prefix first` to `prefix last`.
#[derive(Debug)]
pub struct Section {
    pub spec: String,
    pub number: String,
    pub title: String,
    /// Where the list of rows has it.
    pub line: usize,
    prefix: String,
    first: u32,
    last: u32,
}

/// A specification without a list of its rows, so that missing ones cannot be detected.
#[derive(Debug)]
pub struct FreeSpec {
    pub spec: String,
    pub title: String,
}

impl Catalogue {
    /// Reads lines of the form `spec section ids title`; `#` opens a comment line.
    pub fn parse(text: &str) -> Result<Self> {
        let mut catalogue = Self { sections: Vec::new(), free_specs: Vec::new() };
        for (index, text) in text.lines().enumerate() {
            if !text.trim().is_empty() && !text.starts_with('#') {
                catalogue.add(index + 1, text).with_context(|| format!("in the line `{text}`"))?;
            }
        }
        Ok(catalogue)
    }

    fn add(&mut self, line: usize, text: &str) -> Result<()> {
        let mut words = text.split_whitespace();
        let (Some(spec), Some(number), Some(ids)) = (words.next(), words.next(), words.next()) else {
            bail!("a row list needs a specification, a section, ids and a title");
        };
        let (spec, title) = (spec.to_owned(), words.collect::<Vec<_>>().join(" "));
        if (number, ids) == ("-", "-") {
            self.free_specs.push(FreeSpec { spec, title });
            return Ok(());
        }
        let (first, last) = ids.split_once('-').context("ids are a range, as S1-S4")?;
        let (prefix, first) = parse_numbered(first).context("the first id is a letter and a number")?;
        let (_, last) = parse_numbered(last).context("the last id is a letter and a number")?;
        let (number, prefix) = (number.to_owned(), prefix.to_owned());
        self.sections.push(Section { spec, number, title, line, prefix, first, last });
        Ok(())
    }

    /// Whether there is such a row.
    pub fn has(&self, row: &Row) -> bool {
        match &row.id {
            RowId::Free(_) => self.free_specs.iter().any(|free| free.spec == row.spec),
            RowId::Numbered { .. } => {
                self.sections.iter().any(|section| section.rows().any(|known| known == *row))
            }
        }
    }

    /// All numbered rows, in the order of the list.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        self.sections.iter().flat_map(Section::rows)
    }
}

impl Section {
    /// Its rows in order.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        (self.first..=self.last).map(|number| {
            let id = RowId::Numbered { prefix: self.prefix.clone(), number };
            Row { spec: self.spec.clone(), id }
        })
    }
}
