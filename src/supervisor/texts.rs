//! What a person may write: notes, tags, names.

use crate::measure::plan::FieldError;

/// Longest note, in characters.
const MAX_NOTE: usize = 2_000;
/// Longest tag or name, in characters.
const MAX_NAME: usize = 64;
/// Most tags of one run or peer.
const MAX_TAGS: usize = 20;

/// What is wrong with a note: at most 2,000 characters, line ends allowed.
pub fn check_note(note: &str) -> Vec<FieldError> {
    let message = if note.chars().count() > MAX_NOTE {
        format!("The note is longer than {MAX_NOTE} characters.")
    } else if note
        .chars()
        .any(|c| !matches!(c, '\n' | '\r' | '\t') && is_unseen(c))
    {
        "The note contains control or direction characters.".to_owned()
    } else {
        return Vec::new();
    };
    vec![FieldError {
        field: "note".into(),
        message,
    }]
}

/// What is wrong with tags: at most 20, each of 1 to 64 visible characters.
pub fn check_tags(tags: &[String]) -> Vec<FieldError> {
    let mut messages = Vec::new();
    if tags.len() > MAX_TAGS {
        messages.push(format!(
            "There are {} tags, at most {MAX_TAGS} are kept.",
            tags.len()
        ));
    }
    messages.extend(tags.iter().find_map(|tag| check_name("A tag", tag)));
    messages
        .into_iter()
        .map(|message| FieldError {
            field: "tags".into(),
            message,
        })
        .collect()
}

/// What is wrong with a one-line name: 1 to 64 characters, none of them unseen, no space at an end.
pub(super) fn check_name(what: &str, name: &str) -> Option<String> {
    let length = name.chars().count();
    if length == 0 || length > MAX_NAME {
        return Some(format!(
            "{what} has 1 to {MAX_NAME} characters, this one has {length}."
        ));
    }
    if name.chars().any(is_unseen) {
        return Some(format!(
            "{what} must not contain control or direction characters."
        ));
    }
    if name.trim() != name {
        return Some(format!("{what} must not begin or end with a space."));
    }
    None
}

/// Control characters, and those that reorder or hide text around them.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{061C}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_visible() {
        for good in ["a", "rack 4", "évora", &"x".repeat(64)] {
            assert_eq!(check_name("A tag", good), None, "{good}");
        }
        let long = "x".repeat(65);
        for bad in [
            "",
            " a",
            "a ",
            "a\nb",
            "a\u{202E}b",
            "a\u{200B}",
            long.as_str(),
        ] {
            assert!(check_name("A tag", bad).is_some(), "{bad:?}");
        }
        assert_eq!(check_note("two\nlines\tof text"), []);
        assert_eq!(check_note("a\u{1b}[2J").len(), 1);
        assert_eq!(check_note(&"x".repeat(2_001)).len(), 1);
        assert_eq!(check_tags(&vec!["x".to_owned(); 21]).len(), 1);
    }
}
