//! `points.csv`: an experiment, tidy: one row for each point and repeat, the varied fields first, then the summary.

use std::collections::HashMap;

use crate::measure::experiment::Experiment;
use crate::report::csv::{Cell, Options};
use crate::report::flat::{cell, flatten};

/// The runs of an experiment, one row each. The columns of the summary are all that occur, in the order in which they
/// first do; what a run does not have is empty.
pub fn points_csv(experiment: &Experiment, options: Options) -> String {
    let mut varied = Columns::default();
    let mut figures = Columns::default();
    let mut rows = Vec::new();
    for point in &experiment.points {
        let place: Vec<(usize, Cell)> = point
            .point
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| (varied.place(name), cell(value)))
            .collect();
        let found: Vec<(usize, Cell)> = point
            .summary
            .iter()
            .flat_map(flatten)
            .map(|(name, cell)| (figures.place(&name), cell))
            .collect();
        let fixed = [
            Cell::Count(u64::from(point.repeat)),
            Cell::Id(point.run),
            Cell::Text(point.state.word().to_owned()),
            point.started_at.map_or(Cell::Missing, Cell::Time),
            point
                .error
                .as_ref()
                .map_or(Cell::Missing, |error| Cell::Text(error.clone())),
        ];
        rows.push((place, fixed, found));
    }
    let mut names = varied.names.clone();
    names.extend(["repeat", "run", "state", "started_at", "error"].map(str::to_owned));
    // A summary may have a figure of such a name too.
    let before = names.len();
    for name in &figures.names {
        names.push(if names[..before].contains(name) {
            format!("summary_{name}")
        } else {
            name.clone()
        });
    }
    let mut text = options.header(&names);
    for (place, fixed, found) in rows {
        let mut cells = vec![Cell::Missing; names.len()];
        let first = varied.names.len();
        for (column, cell) in place {
            cells[column] = cell;
        }
        let after = first + fixed.len();
        for (column, cell) in fixed.into_iter().enumerate() {
            cells[first + column] = cell;
        }
        for (column, cell) in found {
            cells[after + column] = cell;
        }
        text.push_str(&options.row(&cells));
    }
    text
}

/// Names in the order in which they first come.
#[derive(Default)]
struct Columns {
    names: Vec<String>,
    places: HashMap<String, usize>,
}

impl Columns {
    fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = self.names.len();
        self.names.push(name.to_owned());
        self.places.insert(name.to_owned(), place);
        place
    }
}
