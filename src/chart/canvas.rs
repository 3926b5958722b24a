//! The sheet that is drawn on: a plotters backend that writes SVG in tenths of a pixel, with colour roles instead of colours.
//!
//! plotters counts in whole units, so the sheet tells it that it is ten times as large: no staircase on gentle slopes.

use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::rc::Rc;

use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, DrawingBackend, DrawingErrorKind,
};

use crate::chart::text;
use crate::chart::theme::{Drawing, Manner, Pen, Role, hatch};

/// Units of the backend in one pixel.
pub(crate) const FINE: f64 = 10.0;

/// Where a text is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A sheet; clones write to the same one.
#[derive(Clone)]
pub(crate) struct Canvas {
    width: u32,
    height: u32,
    body: Rc<RefCell<String>>,
}

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

impl Canvas {
    pub(crate) fn new(width: u32, height: u32) -> Self {
        Self {
            width,
            height,
            body: Rc::new(RefCell::new(String::with_capacity(12_000))),
        }
    }

    /// The drawing, under an id that is unique in a page.
    pub(crate) fn finish(self, id: String, title: &str, desc: &str) -> Drawing {
        Drawing {
            id,
            width: self.width,
            height: self.height,
            title: text::escape(title),
            desc: text::escape(desc),
            body: self.body.take(),
        }
    }

    /// A text whose baseline is at `y`, in px.
    pub(crate) fn text(&self, at: (f64, f64), anchor: Anchor, role: Role, words: &str) {
        self.write_text(at, anchor, role, "", &text::escape(words));
    }

    /// The same in bold.
    pub(crate) fn strong(&self, at: (f64, f64), anchor: Anchor, role: Role, words: &str) {
        self.write_text(at, anchor, role, " class=\"strong\"", &text::escape(words));
    }

    /// A bold figure in ink, then muted words.
    pub(crate) fn figure_and_words(&self, at: (f64, f64), figure: &str, words: &str) {
        let content = format!(
            "<tspan class=\"strong\" fill=\"{}\">{}</tspan>{}",
            Role::Ink.variable(),
            text::escape(figure),
            text::escape(words)
        );
        self.write_text(at, Anchor::Start, Role::Muted, "", &content);
    }

    fn write_text(&self, at: (f64, f64), anchor: Anchor, role: Role, class: &str, content: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let _ = write!(
            self.body.borrow_mut(),
            "<text x=\"{}\" y=\"{}\"{anchor} fill=\"{}\"{class}>{content}</text>",
            px(at.0),
            px(at.1),
            role.variable()
        );
    }

    /// A rectangle given in px.
    pub(crate) fn rect(&self, left: f64, top: f64, width: f64, height: f64, pen: Pen) {
        if width <= 0.0 || height <= 0.0 {
            return;
        }
        let _ = write!(
            self.body.borrow_mut(),
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}/>",
            px(left),
            px(top),
            px(width),
            px(height),
            paint(pen)
        );
    }

    /// A straight line given in px; level and upright ones sit on half pixels and so are sharp.
    pub(crate) fn line(&self, from: (f64, f64), to: (f64, f64), pen: Pen) {
        let sharp = |a: f64, b: f64| {
            if (a - b).abs() < 0.05 {
                let half = a.floor() + 0.5;
                (half, half)
            } else {
                (a, b)
            }
        };
        let (x1, x2) = sharp(from.0, to.0);
        let (y1, y2) = sharp(from.1, to.1);
        let _ = write!(
            self.body.borrow_mut(),
            "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"{}/>",
            px(x1),
            px(y1),
            px(x2),
            px(y2),
            paint(pen)
        );
    }

    /// Crosses around these points in px, as one path.
    pub(crate) fn crosses(&self, points: &[(f64, f64)], pen: Pen) {
        if points.is_empty() {
            return;
        }
        let mut path = String::new();
        for (x, y) in points {
            let _ = write!(
                path,
                "M{},{}l4.8,4.8m0-4.8l-4.8,4.8",
                px(x - 2.4),
                px(y - 2.4)
            );
        }
        let _ = write!(self.body.borrow_mut(), "<path d=\"{path}\"{}/>", paint(pen));
    }

    /// Dots around these points in px, as one path of round line ends.
    pub(crate) fn dots(&self, points: &[(f64, f64)], radius: f64, role: Role) {
        if points.is_empty() {
            return;
        }
        let mut path = String::new();
        for (x, y) in points {
            let _ = write!(path, "M{},{}h0", px(*x), px(*y));
        }
        let _ = write!(
            self.body.borrow_mut(),
            "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linecap=\"round\"/>",
            role.variable(),
            px(radius * 2.0)
        );
    }

    fn path(&self, points: impl IntoIterator<Item = BackendCoord>, close: &str, pen: Pen) {
        let mut d = String::new();
        let mut last: Option<BackendCoord> = None;
        for (x, y) in points {
            match last {
                None => {
                    let _ = write!(d, "M{},{}l", tenths(x), tenths(y));
                }
                Some((x0, y0)) if (x, y) != (x0, y0) => {
                    let dx = tenths(x - x0);
                    let dy = tenths(y - y0);
                    if !d.ends_with('l') && !dx.starts_with('-') {
                        d.push(' ');
                    }
                    d.push_str(&dx);
                    if !dy.starts_with('-') {
                        d.push(',');
                    }
                    d.push_str(&dy);
                }
                Some(_) => continue,
            }
            last = Some((x, y));
        }
        if d.ends_with('l') {
            d.push_str("0,0"); // One place only: a line cap still shows it.
        }
        if d.is_empty() {
            return;
        }
        let joins = if pen.width > 0 {
            " stroke-linejoin=\"round\" stroke-linecap=\"round\""
        } else {
            ""
        };
        let end = format!("\"{}{joins}/>", paint(pen));
        let mut body = self.body.borrow_mut();
        // Pieces of one line that follow each other are one path: a line in a hundred pieces stays small.
        let is_piece = body.ends_with(&end)
            && body
                .rfind('<')
                .is_some_and(|start| body[start..].starts_with("<path"));
        if is_piece {
            let kept = body.len() - end.len();
            body.truncate(kept);
        } else {
            body.push_str("<path d=\"");
        }
        body.push_str(&d);
        body.push_str(close);
        body.push_str(&end);
    }
}

impl DrawingBackend for Canvas {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        (self.width * 10, self.height * 10)
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Drawn {
        let pen = Pen::read(color.rgb, color.alpha, 0);
        self.rect(fine(point.0), fine(point.1), 0.1, 0.1, pen);
        Ok(())
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Drawn {
        self.path([from, to], "", stroke(style));
        Ok(())
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        upper_left: BackendCoord,
        bottom_right: BackendCoord,
        style: &S,
        filled: bool,
    ) -> Drawn {
        let (x, y) = (fine(upper_left.0), fine(upper_left.1));
        let (width, height) = (fine(bottom_right.0) - x, fine(bottom_right.1) - y);
        let pen = if filled { area(style) } else { stroke(style) };
        self.rect(x, y, width, height, pen);
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn {
        self.path(path, "", stroke(style));
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        center: BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Drawn {
        let pen = if fill { area(style) } else { stroke(style) };
        let _ = write!(
            self.body.borrow_mut(),
            "<circle cx=\"{}\" cy=\"{}\" r=\"{}\"{}/>",
            tenths(center.0),
            tenths(center.1),
            px(f64::from(radius) / FINE),
            paint(pen)
        );
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        corners: I,
        style: &S,
    ) -> Drawn {
        self.path(corners, "Z", area(style));
        Ok(())
    }
}

fn stroke<S: BackendStyle>(style: &S) -> Pen {
    let color = style.color();
    Pen::read(color.rgb, color.alpha, style.stroke_width().max(1))
}

fn area<S: BackendStyle>(style: &S) -> Pen {
    let color = style.color();
    Pen::read(color.rgb, color.alpha, 0)
}

/// The attributes that a pen comes to.
fn paint(pen: Pen) -> String {
    let mut out = String::new();
    if pen.width > 0 {
        let _ = write!(
            out,
            " fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"",
            pen.role.variable(),
            px(f64::from(pen.width) / FINE)
        );
        match pen.manner {
            Manner::Dashed => out.push_str(" stroke-dasharray=\"6 4\""),
            Manner::Dotted => out.push_str(" stroke-dasharray=\"2 3\""),
            Manner::Solid | Manner::Hatched => {}
        }
    } else {
        let fill = match pen.manner {
            Manner::Hatched => hatch(pen.role),
            _ => pen.role.variable(),
        };
        let _ = write!(out, " fill=\"{fill}\"");
        if pen.outline != Role::None {
            let _ = write!(out, " stroke=\"{}\"", pen.outline.variable());
        }
    }
    if pen.opacity < 1.0 {
        let _ = write!(
            out,
            " opacity=\"{}\"",
            (pen.opacity * 100.0).round() / 100.0
        );
    }
    out
}

fn fine(units: i32) -> f64 {
    f64::from(units) / FINE
}

fn tenths(units: i32) -> String {
    px(fine(units))
}

/// A length in px with one decimal at most; anything that is not a number counts as 0, so that no drawing can break.
pub(crate) fn px(value: f64) -> String {
    let value = if value.is_finite() {
        (value * 10.0).round() / 10.0
    } else {
        0.0
    };
    if value == 0.0 {
        "0".to_owned()
    } else {
        value.to_string()
    }
}
