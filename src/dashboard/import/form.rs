//! The form of the import page, sent as `multipart/form-data` (RFC 7578) since it may carry a file.

use crate::report::import;

/// What a person filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filled {
    /// The pasted text, or that of the file.
    pub(super) text: String,
    /// The tags, as typed.
    pub(super) tags: String,
    /// The note.
    pub(super) note: String,
}

/// Reads the body of this content type; the error is a sentence.
pub(super) fn read(kind: &str, body: &[u8]) -> Result<Filled, String> {
    let boundary = boundary(kind).ok_or("The form must be sent as multipart/form-data.")?;
    let mut filled = Filled::default();
    let mut file = None;
    for part in parts(body, &boundary) {
        let Some((head, value)) = split_head(part) else {
            continue;
        };
        let name = name(head).unwrap_or_default();
        let text = || import::text_of(value.to_vec()).map_err(|error| error.message);
        match name.as_str() {
            "text" => filled.text = text()?,
            "file" if !value.is_empty() => file = Some(text()?),
            "tags" => filled.tags = text()?,
            "note" => filled.note = text()?,
            _ => {}
        }
    }
    match file {
        Some(file) if filled.text.trim().is_empty() => filled.text = file,
        Some(_) => return Err("Paste a text or choose a file, not both.".to_owned()),
        None => {}
    }
    Ok(filled)
}

/// The boundary that the content type names: 1 to 70 characters.
fn boundary(kind: &str) -> Option<Vec<u8>> {
    let (media, rest) = kind.split_once(';')?;
    if !media.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let value = rest
        .split(';')
        .find_map(|part| part.trim().strip_prefix("boundary="))?
        .trim_matches('"');
    let mut boundary = b"--".to_vec();
    boundary.extend_from_slice(value.as_bytes());
    (1..=70).contains(&value.len()).then_some(boundary)
}

/// What stands between the boundaries.
fn parts<'a>(body: &'a [u8], boundary: &[u8]) -> Vec<&'a [u8]> {
    let mut found = Vec::new();
    let mut at = 0;
    let mut start = None;
    while let Some(next) = find(&body[at..], boundary) {
        let here = at + next;
        // A boundary begins a line; the same characters inside one are text.
        let begins_line = here == 0 || body[..here].ends_with(b"\r\n");
        at = here + boundary.len();
        if !begins_line {
            continue;
        }
        if let Some(start) = start {
            found.push(&body[start..here.saturating_sub(2).max(start)]);
        }
        if body[at..].starts_with(b"--") {
            break;
        }
        start = Some((at + 2).min(body.len()));
        if found.len() > 16 {
            break;
        }
    }
    found
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut from = 0;
    while let Some(at) = text[from..].iter().position(|byte| *byte == first) {
        let here = from + at;
        if text[here..].starts_with(wanted) {
            return Some(here);
        }
        from = here + 1;
    }
    None
}

/// A part's head and its value.
fn split_head(part: &[u8]) -> Option<(&str, &[u8])> {
    let end = find(part, b"\r\n\r\n")?;
    let head = std::str::from_utf8(&part[..end]).ok()?;
    Some((head, &part[end + 4..]))
}

/// The name of a field in a part's head.
fn name(head: &str) -> Option<String> {
    let line = head.lines().find(|line| {
        line.to_ascii_lowercase()
            .starts_with("content-disposition:")
    })?;
    let (_, rest) = line.split_once(" name=\"")?;
    Some(rest.split('"').next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: &str = "multipart/form-data; boundary=xYz";

    fn body(parts: &[(&str, &str)]) -> Vec<u8> {
        let mut body = String::new();
        for (head, value) in parts {
            let lines = [
                "--xYz\r\nContent-Disposition: form-data; ",
                head,
                "\r\n\r\n",
                value,
                "\r\n",
            ];
            body.push_str(&lines.concat());
        }
        body.push_str("--xYz--\r\n");
        body.into_bytes()
    }

    #[test]
    fn a_pasted_text_and_a_file_are_read() {
        let pasted = body(&[
            ("name=\"text\"", "PING a\r\n--xYz in a line"),
            ("name=\"file\"; filename=\"\"", ""),
            ("name=\"tags\"", "a, b"),
        ]);
        let filled = read(KIND, &pasted).unwrap();
        assert_eq!(filled.tags, "a, b");
        assert!(filled.text.starts_with("PING a"), "{}", filled.text);
        let file = body(&[
            ("name=\"text\"", ""),
            ("name=\"file\"; filename=\"x\"", "one\ntwo"),
        ]);
        assert_eq!(read(KIND, &file).unwrap().text, "one\ntwo");
        let both = body(&[
            ("name=\"text\"", "x"),
            ("name=\"file\"; filename=\"x\"", "y"),
        ]);
        assert!(read(KIND, &both).unwrap_err().contains("not both"));
    }

    #[test]
    fn what_is_no_such_form_is_told() {
        assert!(read("text/plain", b"x").is_err());
        assert!(read("multipart/form-data; boundary=", b"x").is_err());
        assert_eq!(read(KIND, b"").unwrap(), Filled::default());
        assert_eq!(read(KIND, b"--xYz").unwrap(), Filled::default());
        let mut bad = body(&[("name=\"text\"", "a\nB")]);
        let at = bad.iter().position(|byte| *byte == b'B').unwrap();
        bad[at] = 0xff;
        assert!(read(KIND, &bad).unwrap_err().contains("line 2"));
    }
}
