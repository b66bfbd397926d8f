//! Prints the results as a table: a row per quantity, a column per controller, and the ratio to kross.

use std::fmt::Write;

use super::contender::Contender;
use super::load::{Load, Measured};

type Quantity = (&'static str, &'static str, fn(&Measured) -> f64);

const QUANTITIES: [Quantity; 7] = [
    ("all ready", "s", |measured| measured.ready.as_secs_f64()),
    ("requests per instance", "", |measured| measured.requests),
    ("Events per instance", "", |measured| measured.events),
    ("CPU time", "s", |measured| measured.cpu.as_secs_f64()),
    ("memory", "MB", |measured| measured.resident as f64 / 1e6),
    ("drift repaired, median", "ms", |measured| measured.repair.as_secs_f64() * 1e3),
    ("all deleted", "s", |measured| measured.deletion.as_secs_f64()),
];

pub(super) fn render(instances: usize, results: &[(Contender, Vec<Measured>)]) -> String {
    let mut text = String::new();
    for (index, load) in Load::ALL.into_iter().enumerate() {
        let columns: Vec<(Contender, &Measured)> = results
            .iter()
            .filter_map(|(contender, measured)| Some((*contender, measured.get(index)?)))
            .collect();
        let _ = writeln!(text, "\n{instances} instances of {}", load.title());
        let _ = write!(text, "{:<28}", "");
        for (contender, _) in &columns {
            let _ = write!(text, "{:>14}{:>8}", contender.to_string(), "");
        }
        text.push('\n');
        let kross = columns.iter().find(|(contender, _)| *contender == Contender::Kross);
        for (title, unit, quantity) in QUANTITIES {
            let _ = write!(text, "{title:<28}");
            for (contender, measured) in &columns {
                let value = quantity(measured);
                let amount = format!("{value:.2} {unit:<2}");
                let ratio = match kross {
                    Some((_, kross)) if *contender != Contender::Kross && quantity(kross) > 0.0 => {
                        // Of two builds of kross a few percent are interesting.
                        let digits = if contender.is_kro() { 1 } else { 2 };
                        format!("{:.digits$}x", value / quantity(kross))
                    }
                    _ => String::new(),
                };
                let _ = write!(text, "{amount:>14}{ratio:>8}");
            }
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn other_controllers_are_shown_with_their_ratio_to_kross() {
        let measured = |seconds| Measured { ready: Duration::from_secs(seconds), ..Measured::default() };
        let results = [
            (Contender::Kross, vec![measured(2), measured(1)]),
            (Contender::Baseline, vec![measured(3), measured(1)]),
            (Contender::KroTuned, vec![measured(12), measured(3)]),
        ];
        let text = render(200, &results);
        let line = text.lines().find(|line| line.starts_with("all ready")).unwrap_or_default();
        assert_eq!(
            line.split_whitespace().collect::<Vec<_>>(),
            ["all", "ready", "2.00", "s", "3.00", "s", "1.50x", "12.00", "s", "6.0x"]
        );
    }
}
