//! Lines of fixed words with numbers between them.

use super::scan::{Number, Scan};

/// The numbers of a line that reads as the template does, each under its name in braces; blanks count as one or none.
/// `None` when it does not.
pub(super) fn read<'t>(template: &'t str, text: &str) -> Option<Vec<(&'t str, Number)>> {
    let mut found = Vec::new();
    let mut scan = Scan::new(text);
    let mut rest = template;
    while !rest.is_empty() {
        let (words, after) = rest.split_once('{').unwrap_or((rest, ""));
        for word in words.split_whitespace() {
            scan.then(word).then_some(())?;
        }
        rest = after;
        if let Some((name, after)) = after.split_once('}') {
            found.push((name, scan.number()?));
            rest = after;
        }
    }
    scan.rest.trim().is_empty().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_must_fit_and_numbers_are_named() {
        let template = "Total: connections {a} requests {b} (x {c}%)";
        let found = read(template, "Total: connections 5  requests 7 (x 1.5%)").unwrap();
        let found: Vec<(&str, f64)> = found.into_iter().map(|(name, n)| (name, n.value)).collect();
        assert_eq!(found, [("a", 5.0), ("b", 7.0), ("c", 1.5)]);
        for wrong in [
            "Total: connections 5",
            "Total: connections x requests 7 (x 1%)",
            "Total: connections 5 requests 7 (x 1.5%) more",
        ] {
            assert_eq!(read(template, wrong), None, "{wrong}");
        }
    }
}
