//! Labels that keep out of each other's way: at line ends they are pushed apart, elsewhere the freest place is taken.

use crate::chart::canvas::{Anchor, Canvas};
use crate::chart::text;
use crate::chart::theme::Role;

/// Distance between the baselines of two lines of text, in px.
pub(crate) const LINE: f64 = 16.0;

/// What stands at the end of one line.
#[derive(Clone, Debug)]
pub(crate) struct EndLabel {
    /// Where the line ends, in px.
    pub(crate) y: f64,
    pub(crate) role: Role,
    /// First line, bold.
    pub(crate) words: String,
    /// Second line, muted; may be empty.
    pub(crate) more: String,
}

impl EndLabel {
    pub(crate) fn new(y: f64, role: Role, words: impl Into<String>) -> Self {
        Self {
            y,
            role,
            words: words.into(),
            more: String::new(),
        }
    }

    pub(crate) fn more(mut self, more: impl Into<String>) -> Self {
        self.more = more.into();
        self
    }

    fn height(&self) -> f64 {
        if self.more.is_empty() {
            LINE
        } else {
            LINE * 2.0
        }
    }
}

/// Writes the labels right of `x`, each as near to its line as the others and the bounds allow. Labels wider than
/// `room` break at their last space, or are cut.
pub(crate) fn write_end_labels(
    canvas: &Canvas,
    x: f64,
    room: f64,
    (top, bottom): (f64, f64),
    size: f64,
    mut labels: Vec<EndLabel>,
) {
    for label in &mut labels {
        fit(label, room, size);
    }
    labels.sort_by(|a, b| a.y.total_cmp(&b.y));
    let mut places: Vec<f64> = Vec::with_capacity(labels.len());
    let mut free = top;
    for label in &labels {
        let place = (label.y - LINE / 2.0).max(free);
        free = place + label.height();
        places.push(place);
    }
    let mut limit = bottom;
    for (place, label) in places.iter_mut().zip(&labels).rev() {
        *place = place.min(limit - label.height());
        limit = *place;
    }
    for (place, label) in places.into_iter().zip(labels) {
        let baseline = place + LINE / 2.0 + 4.2;
        canvas.strong((x, baseline), Anchor::Start, label.role, &label.words);
        if !label.more.is_empty() {
            canvas.text(
                (x, baseline + LINE),
                Anchor::Start,
                Role::Muted,
                &label.more,
            );
        }
    }
}

fn fit(label: &mut EndLabel, room: f64, size: f64) {
    if text::width(&label.words, size) * 1.06 > room {
        if label.more.is_empty()
            && let Some((first, last)) = label.words.rsplit_once(' ')
        {
            let (first, last) = (first.to_owned(), last.to_owned());
            label.words = first;
            label.more = last;
        }
        label.words = cut(&label.words, room / 1.06, size);
    }
    label.more = cut(&label.more, room, size);
}

/// Text cut to a width, with an ellipsis.
pub(crate) fn cut(words: &str, room: f64, size: f64) -> String {
    if text::width(words, size) <= room {
        return words.to_owned();
    }
    let mut kept: String = words.to_owned();
    while kept.pop().is_some() {
        let shown = format!("{}…", kept.trim_end());
        if text::width(&shown, size) <= room {
            return shown;
        }
    }
    String::new()
}

/// A box in px: left, top, right, bottom.
pub(crate) type Bounds = (f64, f64, f64, f64);

/// Finds places for free labels inside a chart.
pub(crate) struct Placer {
    within: Bounds,
    size: f64,
    points: Vec<(f64, f64)>,
    taken: Vec<Bounds>,
}

impl Placer {
    pub(crate) fn new(within: Bounds, size: f64) -> Self {
        Self {
            within,
            size,
            points: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// Keeps labels off a line through these points.
    pub(crate) fn avoid_line(&mut self, points: &[(f64, f64)]) {
        for pair in points.windows(2) {
            let [(x0, y0), (x1, y1)] = [pair[0], pair[1]];
            let length = (x1 - x0).hypot(y1 - y0);
            let steps = (length / 4.0).clamp(1.0, 200.0);
            let mut step = 0.0;
            while step <= steps {
                let share = step / steps;
                self.points
                    .push((x0 + (x1 - x0) * share, y0 + (y1 - y0) * share));
                step += 1.0;
            }
        }
        if let [only] = points {
            self.points.push(*only);
        }
    }

    /// Keeps labels off a box.
    pub(crate) fn avoid_box(&mut self, bounds: Bounds) {
        self.taken.push(bounds);
    }

    /// Writes bold lines of text at the first of these anchors that is free, else at the one that hides least.
    /// An anchor is the left end, middle or right end of the first baseline.
    pub(crate) fn write(
        &mut self,
        canvas: &Canvas,
        anchors: &[(f64, f64, Anchor)],
        role: Role,
        lines: &[String],
    ) {
        let wide = lines
            .iter()
            .map(|line| text::width(line, self.size) * 1.06)
            .fold(0.0, f64::max);
        let bounds = |&(x, y, anchor): &(f64, f64, Anchor)| -> Bounds {
            let left = match anchor {
                Anchor::Start => x,
                Anchor::Middle => x - wide / 2.0,
                Anchor::End => x - wide,
            };
            let bottom = y + 4.0 + LINE * (lines.len() as f64 - 1.0);
            (left, y - 11.0, left + wide, bottom)
        };
        let best = anchors
            .iter()
            .min_by(|a, b| self.cost(bounds(a)).total_cmp(&self.cost(bounds(b))));
        let Some(best) = best else { return };
        let mut y = best.1;
        for line in lines {
            canvas.strong((best.0, y), best.2, role, line);
            y += LINE;
        }
        self.taken.push(bounds(best));
    }

    /// How much a label here would hide or be cut.
    fn cost(&self, (left, top, right, bottom): Bounds) -> f64 {
        let hidden = self
            .points
            .iter()
            .filter(|(x, y)| {
                (left - 3.0..=right + 3.0).contains(x) && (top - 2.0..=bottom + 2.0).contains(y)
            })
            .count() as f64;
        let overlapped: f64 = self
            .taken
            .iter()
            .map(|other| {
                let wide = right.min(other.2) - left.max(other.0);
                let high = bottom.min(other.3) - top.max(other.1);
                if wide > 0.0 && high > 0.0 {
                    20.0 + wide
                } else {
                    0.0
                }
            })
            .sum();
        let outside = (self.within.0 - left).max(0.0)
            + (self.within.1 - top).max(0.0)
            + (right - self.within.2).max(0.0)
            + (bottom - self.within.3).max(0.0);
        hidden + overlapped + outside * 10.0
    }
}
