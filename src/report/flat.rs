//! A summary as one flat row: nested names joined by `_`.

use serde_json::Value;

use crate::measure::summary::Summary;
use crate::report::csv::Cell;

/// Names and cells of a summary, in its own order; `connection_time_ms_median` for a nested figure.
pub fn flatten(summary: &Summary) -> Vec<(String, Cell)> {
    let mut flat = Vec::new();
    // A summary is a tree of numbers and texts with text keys.
    if let Ok(value) = serde_json::to_value(summary) {
        walk("", &value, &mut flat);
    }
    flat
}

fn walk(name: &str, value: &Value, flat: &mut Vec<(String, Cell)>) {
    if let Value::Object(parts) = value {
        for (key, part) in parts {
            let below = if name.is_empty() {
                key.clone()
            } else {
                format!("{name}_{key}")
            };
            walk(&below, part, flat);
        }
        return;
    }
    flat.push((name.to_owned(), cell(value)));
}

/// One value as a cell.
pub(super) fn cell(value: &Value) -> Cell {
    match value {
        Value::Null => Cell::Missing,
        Value::Bool(flag) => Cell::Flag(*flag),
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(count), _) => Cell::Count(count),
            (None, Some(figure)) => Cell::Figure(figure),
            (None, None) => Cell::Missing,
        },
        Value::String(text) => Cell::Text(text.clone()),
        Value::Array(parts) if parts.iter().all(Value::is_string) => {
            let words: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
            Cell::Text(words.join(" "))
        }
        Value::Array(_) | Value::Object(_) => Cell::Text(value.to_string()),
    }
}
