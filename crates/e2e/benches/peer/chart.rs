//! A chart: for each figure and size a bar for each proxy, on a logarithmic scale, because they are that far apart.

use std::fmt::Write as _;

use crate::cluster::Size;
use crate::figures::{Figures, Measured, milliseconds};
use crate::proxy::Make;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 190.0;
const BAR: f64 = 13.0;
const GAP: f64 = 10.0;
const TITLE: f64 = 34.0;
const COLOURS: [(Make, &str); 2] = [(Make::KubeProxy, "#326ce5"), (Make::Ferrule, "#c2571a")];

type Panel = (&'static str, fn(&Figures) -> Option<f64>, &'static str);

const PANELS: [Panel; 4] = [
    ("Start to programmed", |figures| Some(milliseconds(figures.start?)), "ms"),
    (
        "New Service until a packet passes (p50)",
        |figures| figures.new_service.as_ref().map(|changes| milliseconds(changes.percentile(50))),
        "ms",
    ),
    (
        "Endpoint replaced until a packet shows it (p50)",
        |figures| figures.replaced.as_ref().map(|changes| milliseconds(changes.percentile(50))),
        "ms",
    ),
    ("Resident memory", |figures| Some(figures.resident.0), "MiB"),
];

pub fn svg(measured: &[Measured]) -> String {
    let mut body = String::new();
    let mut y = 30.0;
    legend(&mut body);
    for panel in &PANELS {
        y = draw(&mut body, panel, measured, y);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {y:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    )
}

fn legend(body: &mut String) {
    for (at, (make, colour)) in (0_u8..).zip(COLOURS) {
        let x = LEFT + 120.0 * f64::from(at);
        let _ = writeln!(
            body,
            "<rect x=\"{x}\" y=\"10\" width=\"12\" height=\"12\" fill=\"{colour}\"/><text x=\"{}\" y=\"20\">{make}</text>",
            x + 18.0
        );
    }
    let _ = writeln!(
        body,
        "<text x=\"{}\" y=\"20\" fill=\"#666\">logarithmic scale, shorter is better</text>",
        LEFT + 250.0
    );
}

/// Draws a panel from a height on; returns where it ends.
fn draw(body: &mut String, (title, value, unit): &Panel, measured: &[Measured], top: f64) -> f64 {
    let _ = writeln!(body, "<text x=\"10\" y=\"{}\" font-weight=\"bold\">{title}</text>", top + 18.0);
    let values: Vec<f64> = measured.iter().filter_map(|one| value(&one.figures)).collect();
    let least = values.iter().copied().fold(f64::MAX, f64::min).max(0.01) / 2.0;
    let most = values.iter().copied().fold(1.0, f64::max);
    let scale = (WIDTH - LEFT - 120.0) / (most / least).ln();
    let mut y = top + TITLE;
    for pair in measured.chunks(2) {
        let _ = writeln!(
            body,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            LEFT - 10.0,
            y + BAR + 3.0,
            label(pair[0].size)
        );
        for one in pair {
            let colour =
                COLOURS.iter().find(|(make, _)| *make == one.make).map_or("#888", |(_, colour)| colour);
            let (width, told) = match value(&one.figures) {
                Some(value) => ((value / least).ln().max(0.0) * scale, format!("{value:.1} {unit}")),
                None => (0.0, "not in time".into()),
            };
            let _ = writeln!(
                body,
                "<rect x=\"{LEFT}\" y=\"{y:.0}\" width=\"{width:.1}\" height=\"{BAR}\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{:.0}\">{told}</text>",
                LEFT + width + 6.0,
                y + BAR - 2.0
            );
            y += BAR + 1.0;
        }
        y += GAP;
    }
    y + GAP
}

fn label(size: Size) -> String {
    format!("{} x {}", size.services, size.endpoints)
}
