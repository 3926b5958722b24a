//! Tables of a report: streams, both ends, probes, interfaces.

use crate::dashboard::words;

/// One table with its heading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Its anchor on the page.
    pub id: &'static str,
    /// Its heading.
    pub head: String,
    /// What to know about it; empty where nothing is.
    pub lead: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Row>,
    /// What is left out, and the file that has it.
    pub more: Option<More>,
}

/// One column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// What stands above it.
    pub name: &'static str,
    /// Class of its cells: `n` for numbers, `mono` for addresses, or nothing.
    pub class: &'static str,
}

/// One row; its first cell is its heading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Whether it is the sum of those above.
    pub sum: bool,
    /// Whether it is bad news.
    pub bad: bool,
    /// Its cells, one for each column.
    pub cells: Vec<String>,
}

/// Rows that a table leaves out.
#[derive(Clone, Debug, PartialEq)]
pub struct More {
    /// How many, in words.
    pub text: String,
    /// The file that has them.
    pub file: &'static str,
}

impl Table {
    /// Whether a phone shows each row as lines of its own: where remarks beside the figures would lie outside.
    pub fn stacks(&self) -> bool {
        self.columns
            .last()
            .is_some_and(|column| column.name.is_empty())
    }

    /// Whether anything stands in one of its columns; the first is the heading of each row.
    pub fn drop_empty_columns(&mut self) {
        let used: Vec<bool> = (0..self.columns.len())
            .map(|column| {
                column == 0
                    || self.rows.iter().any(|row| {
                        row.cells
                            .get(column)
                            .is_some_and(|cell| !cell.is_empty() && cell != words::DASH)
                    })
            })
            .collect();
        let mut keep = used.iter();
        self.columns
            .retain(|_| keep.next().copied().unwrap_or(false));
        for row in &mut self.rows {
            let mut keep = used.iter();
            row.cells.retain(|_| keep.next().copied().unwrap_or(false));
        }
    }
}

/// A column of words.
pub const fn words_in(name: &'static str) -> Column {
    Column { name, class: "" }
}

/// A column of numbers.
pub const fn numbers(name: &'static str) -> Column {
    Column { name, class: "n" }
}

/// A column of addresses.
pub const fn addresses(name: &'static str) -> Column {
    Column {
        name,
        class: "mono",
    }
}

/// A count, or a dash where nothing was counted.
pub fn count(value: Option<u64>) -> String {
    value.map_or_else(|| words::DASH.to_owned(), words::count)
}

/// A text, or a dash where there is none.
pub fn text(value: Option<&String>) -> String {
    value
        .filter(|text| !text.is_empty())
        .map_or_else(|| words::DASH.to_owned(), Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_in_which_nothing_was_measured_is_left_out() {
        let row = |cells: &[&str]| Row {
            cells: cells.iter().map(|cell| (*cell).to_owned()).collect(),
            ..Row::default()
        };
        let mut table = Table {
            columns: vec![words_in("stream"), numbers("rate"), numbers("sent again")],
            rows: vec![row(&["1", "5", words::DASH]), row(&["2", words::DASH, ""])],
            ..Table::default()
        };
        table.drop_empty_columns();
        assert_eq!(table.columns.len(), 2);
        assert_eq!(table.rows[1].cells, ["2", words::DASH]);
    }
}
