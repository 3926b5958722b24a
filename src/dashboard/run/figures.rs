//! Charts as they stand on the page: title, both drawings, data table, and which of them stand side by side.

use crate::chart::{Figure, Svg};
use crate::dashboard::words::{self, Piece};

/// One chart with all that belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureView {
    /// Where its files lie, such as `/runs/12`.
    pub at: String,
    /// Its name in addresses.
    pub name: &'static str,
    /// The finding.
    pub title: Vec<Piece>,
    /// What is drawn, and n.
    pub subtitle: String,
    /// The wide drawing.
    pub desk: Svg,
    /// The narrow drawing.
    pub phone: Svg,
    /// Head of the data table.
    pub head: Vec<Cell>,
    /// Its rows.
    pub rows: Vec<Vec<Cell>>,
    /// Why there is nothing to draw.
    pub empty: Option<String>,
    /// Whether it is drawn half as wide as the column.
    pub half: bool,
    /// Which download holds its figures.
    pub csv: &'static str,
    /// Whether addresses on this server may be linked.
    pub links: bool,
}

/// One cell of a data table.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// What it says.
    pub text: String,
    /// Whether it is a number.
    pub right: bool,
}

/// The charts of a run in rows of one or two, as the page sets them.
pub fn rows(at: &str, figures: Vec<Figure>, names: &[&str]) -> Vec<Vec<FigureView>> {
    let mut rows: Vec<Vec<FigureView>> = Vec::new();
    let mut open = false;
    for figure in figures {
        let pair = figure.pair;
        let figure = view(at, figure, names);
        match rows.last_mut() {
            Some(row) if open && pair => {
                row.push(figure);
                open = false;
            }
            _ => {
                open = pair;
                rows.push(vec![figure]);
            }
        }
    }
    rows
}

fn view(at: &str, figure: Figure, names: &[&str]) -> FigureView {
    let (head, rows) = table(&figure.table.head, &figure.table.rows);
    FigureView {
        at: at.to_owned(),
        name: figure.name,
        title: words::pieces(&figure.title, names),
        subtitle: figure.subtitle,
        desk: figure.desk.inline(),
        phone: figure.phone.inline(),
        head,
        rows,
        empty: figure.empty,
        half: figure.pair,
        csv: match figure.name {
            _ if at.starts_with("/experiments") => "points.csv",
            "replies-over-time" | "throughput" | "streams" | "retransmits" | "rtt" | "loss"
            | "ping" => "intervals.csv",
            _ => "requests.csv",
        },
        links: true,
    }
}

/// Head and rows of a data table; a column of numbers is set to the right.
pub fn table(head: &[String], rows: &[Vec<String>]) -> (Vec<Cell>, Vec<Vec<Cell>>) {
    let right: Vec<bool> = (0..head.len())
        .map(|column| {
            column > 0
                && rows
                    .iter()
                    .filter_map(|row| row.get(column))
                    .all(|text| is_number(text))
        })
        .collect();
    let cells = |row: &[String]| {
        row.iter()
            .enumerate()
            .map(|(column, text)| Cell {
                text: text.clone(),
                right: right.get(column).copied().unwrap_or(false),
            })
            .collect()
    };
    (cells(head), rows.iter().map(|row| cells(row)).collect())
}

fn is_number(text: &str) -> bool {
    text.is_empty()
        || text == words::DASH
        || text.starts_with(|first: char| first.is_ascii_digit() || "≥<>+-−".contains(first))
}
