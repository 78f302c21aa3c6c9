//! The result as a table in Markdown, with the relay's ratio to each peer.

use std::time::Duration;

#[derive(Debug)]
pub struct Table {
    names: Vec<String>,
    rows: Vec<(String, String, Vec<f64>)>,
}

impl Table {
    pub fn new(names: Vec<String>) -> Self {
        Self { names, rows: Vec::new() }
    }

    pub fn add(&mut self, what: &str, unit: &str, values: impl Iterator<Item = f64>) {
        let values: Vec<f64> = values.collect();
        eprintln!("{what}: {values:.1?} {unit}");
        self.rows.push((what.to_owned(), unit.to_owned(), values));
    }

    /// The first column is no proxy, the second the relay, the others its peers.
    pub fn print(&self) {
        let peers = self.names.get(2..).unwrap_or_default();
        let ratios: Vec<String> = peers.iter().map(|name| format!("Ferrule to {name}")).collect();
        println!("| | {} | {} |", self.names.join(" | "), ratios.join(" | "));
        println!("|---|{}", "---:|".repeat(self.names.len() + ratios.len()));
        for (what, unit, values) in &self.rows {
            let shown: Vec<String> = values.iter().map(|value| number(*value)).collect();
            let own = values.get(1).copied().unwrap_or(f64::NAN);
            let ratios: Vec<String> = values.iter().skip(2).map(|peer| ratio(own, *peer)).collect();
            println!("| {what}, {unit} | {} | {} |", shown.join(" | "), ratios.join(" | "));
        }
    }
}

fn number(value: f64) -> String {
    match value {
        value if !value.is_finite() => "–".to_owned(),
        value if value.abs() >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.2}"),
    }
}

fn ratio(own: f64, peer: f64) -> String {
    if own.is_finite() && peer.is_finite() && peer != 0.0 {
        format!("x {:.2}", own / peer)
    } else {
        "–".to_owned()
    }
}

pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

pub fn percentile(samples: &[Duration], part: f64) -> Duration {
    let mut samples = samples.to_vec();
    samples.sort_unstable();
    let at = (samples.len() as f64 * part) as usize;
    samples.get(at.min(samples.len().saturating_sub(1))).copied().unwrap_or_default()
}
