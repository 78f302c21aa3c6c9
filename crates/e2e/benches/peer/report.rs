//! The tables, with ratios and goals; the figures as JSON; the chart.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::changes::Changes;
use crate::chart;
use crate::cluster::Size;
use crate::figures::{Figures, Measured, milliseconds};
use crate::proxy::Make;

/// One line of a table: how a figure is had, which of two is better, and what is to be reached where.
struct Line {
    name: &'static str,
    value: fn(&Figures) -> Option<f64>,
    unit: &'static str,
    goal: fn(Size) -> Option<Goal>,
}

/// What Ferrule is to reach.
#[derive(Clone, Copy)]
enum Goal {
    /// At most this part of kube-proxy's.
    Ratio(f64),
    /// At most this.
    Below(f64),
    /// More than kube-proxy.
    More,
}

const FIVE: Size = Size::of(5_000, 10);
const TEN: Size = Size::of(10_000, 10);
const MANY: Size = Size::of(45_000, 1);

const LINES: [Line; 15] = [
    Line {
        name: "start to programmed",
        value: |figures| Some(figures.start?.as_secs_f64()),
        unit: "s",
        goal: |size| match size {
            FIVE => Some(Goal::Ratio(1.0 / 10.0)),
            TEN => Some(Goal::Ratio(1.0 / 30.0)),
            MANY => Some(Goal::Below(5.0)),
            _ => None,
        },
    },
    Line {
        name: "CPU of the start",
        value: |figures| Some(figures.start_cpu.as_secs_f64()),
        unit: "s",
        goal: none,
    },
    Line {
        name: "new Service, p50",
        value: |figures| of(figures.new_service.as_ref(), p50),
        unit: "ms",
        goal: hundredth,
    },
    Line {
        name: "new Service, p99",
        value: |figures| of(figures.new_service.as_ref(), p99),
        unit: "ms",
        goal: thirty,
    },
    Line {
        name: "new Service, CPU",
        value: |figures| of(figures.new_service.as_ref(), cpu),
        unit: "ms",
        goal: hundredth,
    },
    Line {
        name: "endpoint replaced, p50",
        value: |figures| of(figures.replaced.as_ref(), p50),
        unit: "ms",
        goal: hundredth,
    },
    Line {
        name: "endpoint replaced, p99",
        value: |figures| of(figures.replaced.as_ref(), p99),
        unit: "ms",
        goal: thirty,
    },
    Line {
        name: "endpoint replaced, CPU",
        value: |figures| of(figures.replaced.as_ref(), cpu),
        unit: "ms",
        goal: hundredth,
    },
    Line {
        name: "resident memory",
        value: |figures| Some(figures.resident.0),
        unit: "MiB",
        goal: |size| (size == FIVE || size == TEN).then_some(Goal::Ratio(1.0 / 5.0)),
    },
    Line {
        name: "resident memory, most",
        value: |figures| Some(figures.resident.1),
        unit: "MiB",
        goal: none,
    },
    Line { name: "kernel memory of the rules", value: |figures| figures.kernel, unit: "MiB", goal: none },
    Line {
        name: "objects written at a restart",
        value: |figures| figures.written_at_restart.map(small),
        unit: "",
        goal: |_| Some(Goal::Below(0.0)),
    },
    Line {
        name: "connections through a cluster IP",
        value: |figures| Some(figures.rates.as_ref()?.through),
        unit: "/s",
        goal: |size| (size.services >= 30_000).then_some(Goal::More),
    },
    Line {
        name: "connections direct, same run",
        value: |figures| Some(figures.rates.as_ref()?.direct),
        unit: "/s",
        goal: none,
    },
    Line {
        name: "through a cluster IP, of direct",
        value: |figures| figures.rates.as_ref().map(|rates| 100.0 * rates.through / rates.direct),
        unit: "%",
        goal: none,
    },
];

fn none(_: Size) -> Option<Goal> {
    None
}

fn hundredth(size: Size) -> Option<Goal> {
    (size == FIVE).then_some(Goal::Ratio(1.0 / 100.0))
}

fn thirty(size: Size) -> Option<Goal> {
    (size == FIVE).then_some(Goal::Below(30.0))
}

fn of(changes: Option<&Changes>, figure: fn(&Changes) -> Duration) -> Option<f64> {
    changes.map(|changes| milliseconds(figure(changes)))
}

fn p50(changes: &Changes) -> Duration {
    changes.percentile(50)
}

fn p99(changes: &Changes) -> Duration {
    changes.percentile(99)
}

fn cpu(changes: &Changes) -> Duration {
    changes.cpu
}

#[expect(clippy::cast_precision_loss, reason = "a count for people")]
fn small(count: u64) -> f64 {
    count as f64
}

/// Prints the tables and writes everything to a folder.
pub fn write(measured: &[Measured]) {
    let folder = PathBuf::from(std::env::var_os("OUT").unwrap_or_else(|| "target/bench-peer".into()));
    fs::create_dir_all(&folder).expect("a folder for the results");
    let tables = tables(measured);
    println!("{tables}");
    let figures: Vec<Value> = measured
        .iter()
        .map(|one| {
            json!({ "size": one.size.to_string(), "proxy": one.make.to_string(), "figures": one.figures.json() })
        })
        .collect();
    let json = serde_json::to_string_pretty(&json!({ "machine": machine(), "measured": figures }));
    let files = [
        ("bench-peer.md", tables),
        ("bench-peer.json", json.expect("JSON") + "\n"),
        ("bench-peer.svg", chart::svg(measured)),
    ];
    for (name, text) in files {
        fs::write(folder.join(name), text).expect("a result is written");
    }
    println!("Written to {}: bench-peer.md, bench-peer.json, bench-peer.svg", folder.display());
}

fn tables(measured: &[Measured]) -> String {
    let mut text = format!("{}\n", machine());
    for pair in measured.chunks(2) {
        let [theirs, ours] = pair else { continue };
        let _ =
            write!(text, "\n### {} Services x {} endpoints\n\n", theirs.size.services, theirs.size.endpoints);
        text.push_str("| | kube-proxy 1.37.1 | Ferrule | ratio | goal |\n|---|---:|---:|---:|---|\n");
        for line in &LINES {
            let values = ((line.value)(&theirs.figures), (line.value)(&ours.figures));
            let _ = writeln!(text, "{}", line.told(theirs.size, values));
        }
    }
    text + &flatness(measured)
}

/// What must not depend on the size, beside each other, and whether it does not.
fn flatness(measured: &[Measured]) -> String {
    let sizes: Vec<String> = measured.chunks(2).map(|pair| format!(" {} |", pair[0].size)).collect();
    let mut text = format!("\n### At every size\n\n| Services x endpoints |{} goal |\n", sizes.concat());
    let _ = writeln!(text, "{}|", "|---".repeat(sizes.len() + 2));
    for flat in &FLAT {
        for make in [Make::KubeProxy, Make::Ferrule] {
            let values: Vec<Option<f64>> = measured
                .iter()
                .filter(|one| one.make == make)
                .map(|one| (flat.value)(&one.figures))
                .collect();
            let cells: Vec<String> =
                values.iter().map(|value| format!(" {} |", value.map_or("–".into(), number))).collect();
            let goal = if make == Make::Ferrule { flat.told(&values) } else { String::new() };
            let _ = writeln!(text, "| {}: {make} |{} {goal} |", flat.name, cells.concat());
        }
    }
    text
}

/// Whether what the first and the last size have will do.
type IsMet = fn(first: f64, last: f64) -> bool;

/// A figure that must be at the largest size what it is at the smallest, but for a factor.
struct Flat {
    name: &'static str,
    value: fn(&Figures) -> Option<f64>,
    goal: Option<(&'static str, IsMet)>,
}

const FLAT: [Flat; 3] = [
    Flat {
        name: "through a cluster IP, % of direct",
        value: |figures| figures.rates.as_ref().map(|rates| 100.0 * rates.through / rates.direct),
        goal: Some(("90 % of the first", |first, last| last >= 0.9 * first)),
    },
    Flat {
        name: "endpoint replaced, p50 ms",
        value: |figures| of(figures.replaced.as_ref(), p50),
        goal: None,
    },
    Flat {
        name: "endpoint replaced, CPU ms",
        value: |figures| of(figures.replaced.as_ref(), cpu),
        goal: Some(("at most twice the first", |first, last| last <= 2.0 * first)),
    },
];

impl Flat {
    fn told(&self, values: &[Option<f64>]) -> String {
        let (Some((name, is_met)), [Some(first), .., Some(last)]) = (self.goal, values) else {
            return String::new();
        };
        format!("{name}: {}", if is_met(*first, *last) { "met" } else { "**missed**" })
    }
}

impl Line {
    fn told(&self, size: Size, (theirs, ours): (Option<f64>, Option<f64>)) -> String {
        let value =
            |value: Option<f64>| value.map_or("not in time".into(), |value| number(value) + " " + self.unit);
        let ratio = match (theirs, ours) {
            (Some(theirs), Some(ours)) if ours > 0.0 && theirs >= ours => {
                format!("1/{}", number(theirs / ours))
            }
            (Some(theirs), Some(ours)) if theirs > 0.0 => format!("x {:.2}", ours / theirs),
            _ => "–".into(),
        };
        let goal = (self.goal)(size).map_or(String::new(), |goal| goal.told(theirs, ours));
        format!("| {} | {} | {} | {ratio} | {goal} |", self.name, value(theirs), value(ours))
    }
}

impl Goal {
    fn told(self, theirs: Option<f64>, ours: Option<f64>) -> String {
        let (is_met, goal) = match (self, theirs, ours) {
            (Self::Ratio(part), Some(theirs), Some(ours)) => {
                (ours <= theirs * part, format!("1/{:.0}", 1.0 / part))
            }
            (Self::Below(most), _, Some(ours)) => (ours <= most, format!("at most {most:.0}")),
            (Self::More, Some(theirs), Some(ours)) => (ours >= theirs, "more".into()),
            (Self::More | Self::Ratio(_), None, Some(_)) => (true, "it finishes".into()),
            (_, _, None) => (false, "to finish".into()),
        };
        format!("{goal}: {}", if is_met { "met" } else { "**missed**" })
    }
}

fn number(value: f64) -> String {
    match value {
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// What it ran on.
fn machine() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let model = model.trim_start_matches([' ', '\t', ':']);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!(
        "{cores} cores of {model}, Linux {}; the API server and etcd on the same cores; optimised build; {}",
        kernel.trim(),
        Make::KubeProxy
    ) + " 1.37.1 in nftables mode."
}
