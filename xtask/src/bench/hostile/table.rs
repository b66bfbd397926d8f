//! Prints the results as a table: a row per attack, with the ratio to no attack and the target.

use std::fmt::Write;
use std::time::Duration;

use super::Measured;
use super::attack::Attack;

/// How many times as long the healthy cluster's instances may take beside a hostile server.
const TARGET: f64 = 1.2;

type Quantity = (&'static str, fn(&Measured) -> Duration);

const QUANTITIES: [Quantity; 3] = [
    ("all ready", |measured| measured.ready),
    ("drift repaired", |measured| measured.repair),
    ("all deleted", |measured| measured.deletion),
];

pub(super) fn render(instances: usize, results: &[(Option<Attack>, Measured)]) -> String {
    let mut text =
        format!("\n{instances} instances of a healthy cluster; target: at most {TARGET:.1}x of no attack\n");
    let _ = write!(text, "{:<16}", "");
    for (title, _) in QUANTITIES {
        let _ = write!(text, "{title:>16}{:>8}", "");
    }
    let _ = writeln!(text, "{:>16}", "peak memory");
    for (attack, measured) in results {
        let name = attack.map_or_else(|| "no attack".to_owned(), |attack| attack.to_string());
        let _ = write!(text, "{name:<16}");
        for (_, quantity) in QUANTITIES {
            let amount = format!("{:.3} s", quantity(measured).as_secs_f64());
            let ratio = attack
                .map_or_else(String::new, |_| ratio(quantity(measured), undisturbed(results, quantity)));
            let _ = write!(text, "{amount:>16}{ratio:>8}");
        }
        let _ = writeln!(text, "{:>13.0} MB", measured.peak as f64 / 1e6);
    }
    text
}

/// The mean of the measurements without an attack.
fn undisturbed(results: &[(Option<Attack>, Measured)], quantity: fn(&Measured) -> Duration) -> Duration {
    let alone = results.iter().filter(|(attack, _)| attack.is_none());
    let times: Vec<Duration> = alone.map(|(_, measured)| quantity(measured)).collect();
    times.iter().sum::<Duration>() / u32::try_from(times.len()).unwrap_or(1).max(1)
}

fn ratio(time: Duration, alone: Duration) -> String {
    let ratio = time.as_secs_f64() / alone.as_secs_f64();
    format!("{ratio:.2}x{}", if ratio > TARGET { "!" } else { " " })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attacks_are_shown_with_their_ratio_to_the_mean_without_one() {
        let measured = |seconds| Measured { ready: Duration::from_secs(seconds), ..Measured::default() };
        let results = [
            (None, measured(9)),
            (Some(Attack::Drip), measured(11)),
            (Some(Attack::WatchFlood), measured(15)),
            (None, measured(11)),
        ];
        let text = render(200, &results);
        let line =
            |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
        assert!(line("drip").contains("11.000 s  1.10x "), "{text}");
        assert!(line("watch-flood").contains("15.000 s  1.50x!"), "{text}");
        assert!(!line("no attack").contains('x'), "{text}");
    }
}
