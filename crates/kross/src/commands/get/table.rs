//! Turns a list into a table as kubectl prints it: columns line up, and ages stand for times.

use jiff::Timestamp;
use kross_diagnostics::render::{Format, neutral_line};

use super::list::Listed;
use crate::hub::{Tone, age, for_people, since};

/// Rows of cells under headers.
#[derive(Debug)]
pub(in crate::commands) struct Table {
    headers: Vec<String>,
    rows: Vec<(Tone, Vec<String>)>,
    /// Which column the tone is of.
    toned: Option<usize>,
}

impl Table {
    pub(in crate::commands) fn of(listed: &Listed, with_namespace: bool, wide: bool, now: Timestamp) -> Self {
        let with_namespace = with_namespace && listed.items.iter().any(|item| !item.namespace.is_empty());
        let with_age = listed.items.iter().any(|item| item.created.is_some());
        let mut headers: Vec<String> = Vec::new();
        headers.extend(with_namespace.then(|| "NAMESPACE".to_owned()));
        headers.extend(listed.headers.iter().map(|&header| header.to_owned()));
        headers.extend(with_age.then(|| "AGE".to_owned()));
        if wide {
            headers.extend(listed.wide_headers.iter().map(|&header| header.to_owned()));
        }
        let rows = listed.items.iter().map(|item| {
            let tone = match () {
                () if item.ready => Tone::Good,
                () if item.failed => Tone::Bad,
                () => Tone::Busy,
            };
            let mut cells: Vec<String> = Vec::new();
            cells.extend(with_namespace.then(|| item.namespace.clone()));
            cells.extend(item.cells.iter().cloned());
            cells.extend(with_age.then(|| since(item.created.as_deref(), now)));
            if wide {
                cells.extend(item.wide.iter().map(|cell| shown(cell, now)));
            }
            (tone, cells.iter().map(|cell| neutral_line(cell).into_owned()).collect())
        });
        let is_state = |header: &String| header == "STATE" || header == "CONNECTED";
        let toned = headers.iter().position(is_state);
        Self { rows: rows.collect(), toned, headers }
    }

    /// Draws the table. On a terminal, the last column is cut where the line ends; everywhere else nothing is cut.
    pub(in crate::commands) fn draw(&self, format: Format, width: Option<usize>) -> String {
        let widths: Vec<usize> = (0..self.headers.len())
            .map(|column| {
                let cells = self.rows.iter().filter_map(|(_, cells)| cells.get(column));
                cells.chain(self.headers.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let mut drawn = String::new();
        let header = (Tone::Plain, self.headers.clone());
        for (number, (tone, cells)) in std::iter::once(&header).chain(&self.rows).enumerate() {
            let (mut line, mut used) = (String::new(), 0);
            for (column, (cell, width_of)) in cells.iter().zip(&widths).enumerate() {
                let is_last = column + 1 == widths.len();
                let cell = match width {
                    Some(width) if is_last && width > used + 1 => cut(cell, width - used),
                    _ => cell.clone(),
                };
                let padded = if is_last { cell } else { format!("{cell:width_of$}   ") };
                used += padded.chars().count();
                let is_toned = number > 0 && self.toned == Some(column);
                line.push_str(&if is_toned {
                    tone.paint(&padded, format == Format::Coloured)
                } else {
                    padded
                });
            }
            drawn.push_str(line.trim_end());
            drawn.push('\n');
        }
        drawn
    }
}

/// A cell with an age in place of a time.
fn shown(cell: &str, now: Timestamp) -> String {
    match cell.parse::<Timestamp>() {
        Ok(time) => age(time, now),
        Err(_) => for_people(cell, now).replace('\n', " "),
    }
}

fn cut(cell: &str, width: usize) -> String {
    if cell.chars().count() <= width {
        return cell.to_owned();
    }
    cell.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::super::list::Item;
    use super::*;

    #[test]
    fn columns_line_up_and_times_are_ages() {
        let item = |name: &str, reason: &str, ready| Item {
            namespace: "team".to_owned(),
            name: name.to_owned(),
            ready,
            cells: vec![name.to_owned(), if ready { "ACTIVE" } else { "ERROR" }.to_owned()],
            wide: vec![reason.to_owned()],
            created: Some("2026-01-01T00:00:00Z".to_owned()),
            ..Item::default()
        };
        let listed = Listed {
            headers: vec!["NAME", "STATE"],
            wide_headers: vec!["REASON"],
            items: vec![
                item("a", "", true),
                item("longer", "cluster `eu` is not connected (since 2026-01-01T00:00:00Z)", false),
            ],
            ..Listed::default()
        };
        let now = "2026-01-01T00:05:00Z".parse().unwrap();
        let plain = |wide, width| Table::of(&listed, true, wide, now).draw(Format::Plain, width);
        assert_eq!(
            plain(false, None),
            "NAMESPACE   NAME     STATE    AGE\nteam        a        ACTIVE   5m\nteam        longer   ERROR    5m\n"
        );
        assert!(plain(true, None).contains("ERROR    5m    cluster `eu` is not connected (for 5m)\n"));
        assert!(
            plain(true, Some(60)).contains("5m    cluster `eu` is not con…\n"),
            "{}",
            plain(true, Some(60))
        );
    }
}
