//! What the old tool would have told: its own text with the misleading figures marked, and the truth in the same order.

/// The panel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Old {
    /// The headline.
    pub head: String,
    /// What stands left and right.
    pub lead: String,
    /// The tool's name.
    pub tool: &'static str,
    /// Its text, cut at the marks.
    pub text: Vec<Marked>,
    /// The truth, in the order of the marks.
    pub truths: Vec<Truth>,
}

/// A stretch of the tool's text.
#[derive(Clone, Debug, PartialEq)]
pub struct Marked {
    /// The text.
    pub text: String,
    /// The number of its mark.
    pub number: Option<usize>,
}

/// One truth.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// The right figure.
    pub fact: String,
    /// Why the old one misleads.
    pub why: String,
}
