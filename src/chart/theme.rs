//! Colour roles, pens and themes: the only place that knows how a chart's colours become `var(--s1)` or `#0072b2`.

use std::fmt::Write as _;

use plotters::style::{RGBAColor, ShapeStyle};

/// The ground on which a file that stands alone is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Dark ink on white paper.
    Light,
    /// Pale ink on dark paper.
    Dark,
}

impl Theme {
    /// The theme with this word, as it stands in `?theme=dark`.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "light" => Some(Self::Light),
            "dark" => Some(Self::Dark),
            _ => None,
        }
    }
}

/// What a colour is for; pages and charts share the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Role {
    /// No colour at all.
    None,
    Paper,
    Wash,
    Ink,
    Muted,
    Grid,
    Axis,
    S1,
    S2,
    S3,
    S4,
    Sky,
    Orange,
    Bad,
}

impl Role {
    const ALL: [Self; 14] = [
        Self::None,
        Self::Paper,
        Self::Wash,
        Self::Ink,
        Self::Muted,
        Self::Grid,
        Self::Axis,
        Self::S1,
        Self::S2,
        Self::S3,
        Self::S4,
        Self::Sky,
        Self::Orange,
        Self::Bad,
    ];

    /// The attribute value of an inline drawing.
    pub(crate) const fn variable(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Paper => "var(--paper)",
            Self::Wash => "var(--wash)",
            Self::Ink => "var(--ink)",
            Self::Muted => "var(--muted)",
            Self::Grid => "var(--grid)",
            Self::Axis => "var(--axis)",
            Self::S1 => "var(--s1)",
            Self::S2 => "var(--s2)",
            Self::S3 => "var(--s3)",
            Self::S4 => "var(--s4)",
            Self::Sky => "var(--sky)",
            Self::Orange => "var(--orange)",
            Self::Bad => "var(--bad)",
        }
    }

    /// The attribute value of a file.
    const fn literal(self, theme: Theme) -> &'static str {
        let (light, dark) = match self {
            Self::None => ("none", "none"),
            Self::Paper => ("#ffffff", "#15191e"),
            Self::Wash => ("#f3f6f8", "#1b2127"),
            Self::Ink => ("#1b1f24", "#e6edf3"),
            Self::Muted => ("#57606a", "#9aa5b1"),
            Self::Grid => ("#d8dee4", "#2d343c"),
            Self::Axis => ("#8a949e", "#66717d"),
            Self::S1 => ("#0072b2", "#58a6e0"),
            Self::S2 => ("#c44e00", "#ff8a3d"),
            Self::S3 => ("#00805c", "#2fc79a"),
            Self::S4 => ("#a8487f", "#e59ac4"),
            Self::Sky => ("#9fd0f3", "#bfe2fa"),
            Self::Orange => ("#f0b43c", "#f0b429"),
            Self::Bad => ("#b42318", "#ff7b72"),
        };
        match theme {
            Theme::Light => light,
            Theme::Dark => dark,
        }
    }

    fn of(number: u8) -> Self {
        Self::ALL
            .get(usize::from(number))
            .copied()
            .unwrap_or(Self::None)
    }
}

/// How a line is broken or an area filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Manner {
    Solid,
    /// 6-4: the second series and every reference.
    Dashed,
    /// 2-3: the third series, and what was offered.
    Dotted,
    /// Diagonal strokes instead of a fill: failed, or not measured.
    Hatched,
}

impl Manner {
    const fn of(number: u8) -> Self {
        match number {
            1 => Self::Dashed,
            2 => Self::Dotted,
            3 => Self::Hatched,
            _ => Self::Solid,
        }
    }
}

/// Colour, manner, outline, width and opacity of one mark. It travels through plotters as a colour whose red, green
/// and blue are role, manner and outline; [`Pen::read`] turns it back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pen {
    pub(crate) role: Role,
    pub(crate) manner: Manner,
    pub(crate) outline: Role,
    /// Width of the line in tenths of a pixel.
    pub(crate) width: u32,
    pub(crate) opacity: f64,
}

impl Pen {
    pub(crate) const fn line(role: Role, width: u32) -> Self {
        Self {
            role,
            manner: Manner::Solid,
            outline: Role::None,
            width,
            opacity: 1.0,
        }
    }

    pub(crate) const fn fill(role: Role) -> Self {
        Self::line(role, 0)
    }

    pub(crate) const fn hatch(role: Role) -> Self {
        Self::fill(role).manner(Manner::Hatched)
    }

    pub(crate) const fn manner(mut self, manner: Manner) -> Self {
        self.manner = manner;
        self
    }

    pub(crate) const fn outline(mut self, outline: Role) -> Self {
        self.outline = outline;
        self
    }

    pub(crate) const fn opacity(mut self, opacity: f64) -> Self {
        self.opacity = opacity;
        self
    }

    /// The style that plotters carries to the backend.
    pub(crate) fn style(self) -> ShapeStyle {
        ShapeStyle {
            color: RGBAColor(
                self.role as u8,
                self.manner as u8,
                self.outline as u8,
                self.opacity,
            ),
            filled: self.width == 0,
            stroke_width: self.width,
        }
    }

    /// What [`Pen::style`] wrote.
    pub(crate) fn read(rgb: (u8, u8, u8), opacity: f64, width: u32) -> Self {
        Self {
            role: Role::of(rgb.0),
            manner: Manner::of(rgb.1),
            outline: Role::of(rgb.2),
            width,
            opacity,
        }
    }
}

/// A drawing that a page may contain as it is: every text in it is escaped, and no script, style or link can be in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Svg(pub(crate) String);

impl Svg {
    /// The markup.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Svg {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// One finished drawing, not yet dressed for a page or a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    /// Unique in a page: the chart's name and the form.
    pub(crate) id: String,
    /// Width of the view box in px.
    pub width: u32,
    /// Height of the view box in px.
    pub height: u32,
    /// Accessible name, escaped.
    pub(crate) title: String,
    /// Accessible description, escaped.
    pub(crate) desc: String,
    /// Elements with `var(--…)` colours.
    pub(crate) body: String,
}

impl Drawing {
    /// The drawing for a page: colours are the page's variables, the size is the place's.
    pub fn inline(&self) -> Svg {
        self.inline_as(&self.id)
    }

    /// The same under another id, for a page that shows one chart of several runs.
    pub fn inline_as(&self, id: &str) -> Svg {
        let id: String = id
            .chars()
            .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-')
            .collect();
        let mut svg = String::with_capacity(self.body.len() + 500);
        let _ = write!(
            svg,
            "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\" font-size=\"12\">",
            self.width, self.height
        );
        self.write_inside(&mut svg, &id);
        svg.push_str("</svg>");
        Svg(svg)
    }

    /// The drawing as a file of its own, with heading and ground and literal colours: viewers outside a browser know
    /// no variables. `heading` holds lines of escaped text, the first ones strong.
    pub(crate) fn file(&self, theme: Theme, strong: &[String], plain: &[String]) -> String {
        let mut head = String::new();
        let mut y = 12;
        for (lines, attributes, step) in [
            (
                strong,
                "font-size=\"16\" font-weight=\"700\" fill=\"var(--ink)\"",
                20,
            ),
            (plain, "font-size=\"12\" fill=\"var(--muted)\"", 16),
        ] {
            for line in lines {
                y += step;
                let _ = write!(head, "<text x=\"16\" y=\"{y}\" {attributes}>{line}</text>");
            }
        }
        let top = y + 12;
        let (width, height) = (self.width + 32, self.height + top + 12);
        let id = &self.id;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             role=\"img\" aria-labelledby=\"{id}-t {id}-d\" font-size=\"12\" \
             font-family=\"system-ui, 'Segoe UI', 'Noto Sans', 'Liberation Sans', Arial, sans-serif\">\
             <rect width=\"{width}\" height=\"{height}\" fill=\"var(--paper)\"/>{head}<g transform=\"translate(16 {top})\">"
        );
        self.write_inside(&mut svg, id);
        svg.push_str("</g></svg>\n");
        // Text cannot contain `="`: quotes are escaped in it, so only attributes change here.
        for role in Role::ALL {
            svg = svg.replace(
                &format!("=\"{}\"", role.variable()),
                &format!("=\"{}\"", role.literal(theme)),
            );
        }
        svg.replace(" class=\"strong\"", " font-weight=\"650\"")
    }

    fn write_inside(&self, svg: &mut String, id: &str) {
        let _ = write!(
            svg,
            "<title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>",
            self.title, self.desc
        );
        let mut hatches = String::new();
        for (name, role) in HATCHES {
            if self.body.contains(&format!("=\"url(#{name})\"")) {
                let _ = write!(
                    hatches,
                    "<pattern id=\"{id}-{name}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
                     <line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" stroke=\"{}\" stroke-width=\"1.6\"/></pattern>",
                    role.variable()
                );
            }
        }
        if hatches.is_empty() {
            svg.push_str(&self.body);
            return;
        }
        let _ = write!(svg, "<defs>{hatches}</defs>");
        svg.push_str(&self.body.replace("=\"url(#h-", &format!("=\"url(#{id}-h-")));
    }
}

/// The hatches there are; a drawing defines those that it uses.
const HATCHES: [(&str, Role); 3] = [
    ("h-bad", Role::Bad),
    ("h-axis", Role::Axis),
    ("h-grid", Role::Grid),
];

/// The attribute value that fills with a role's hatch.
pub(crate) const fn hatch(role: Role) -> &'static str {
    match role {
        Role::Bad => "url(#h-bad)",
        Role::Grid => "url(#h-grid)",
        _ => "url(#h-axis)",
    }
}
