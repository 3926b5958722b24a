//! siege's `-f FILE`: one URL in a line, `#` comments, and `NAME=value` lines for `$(NAME)` and `${NAME}`.

use std::fs;

/// URLs of one file at most.
const MOST: usize = 1000;

/// The words with the file's first URL in place of `-f FILE`, and all of its URLs; the words as they are where none is
/// named. A sentence where the file cannot be used.
pub(super) fn from_file(words: &[String]) -> Result<(Vec<String>, Option<Vec<String>>), String> {
    let is_siege = words
        .first()
        .is_some_and(|program| program == "siege" || program.ends_with("/siege"));
    let Some((at, length, path)) = is_siege.then(|| option(words)).flatten() else {
        return Ok((words.to_vec(), None));
    };
    let text = fs::read_to_string(&path).map_err(|error| {
        let reason = error.kind();
        format!("The file of URLs {path} cannot be read ({reason}).")
    })?;
    let urls = urls(&text).map_err(|sentence| format!("{path}: {sentence}"))?;
    let Some(first) = urls.first() else {
        return Err(format!("The file of URLs {path} holds no URL."));
    };
    let mut changed = words.to_vec();
    changed.splice(at..at + length, [first.clone()]);
    Ok((changed, Some(urls)))
}

/// Where the option stands, how many words it takes, and the file it names.
fn option(words: &[String]) -> Option<(usize, usize, String)> {
    words.iter().enumerate().skip(1).find_map(|(at, word)| {
        if word == "-f" || word == "--file" {
            return words.get(at + 1).map(|path| (at, 2, path.clone()));
        }
        let joined = word
            .strip_prefix("--file=")
            .or_else(|| word.strip_prefix("-f"));
        joined.map(|path| (at, 1, path.to_owned()))
    })
}

fn urls(text: &str) -> Result<Vec<String>, String> {
    let mut variables: Vec<(String, String)> = Vec::new();
    let mut urls = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some((name, value)) = assignment(line) {
            variables.push((name.to_owned(), value.to_owned()));
            continue;
        }
        let mut url = line.to_owned();
        for (name, value) in &variables {
            url = url
                .replace(&format!("$({name})"), value)
                .replace(&format!("${{{name}}}"), value);
        }
        if url.contains(char::is_whitespace) {
            return Err(format!(
                "“{url}” has a method or a body; lines of a URL alone are read here."
            ));
        }
        if !url.contains("://") {
            url.insert_str(0, "http://");
        }
        urls.push(url);
        if urls.len() > MOST {
            return Err(format!("at most {MOST} URLs are read."));
        }
    }
    Ok(urls)
}

/// `NAME = value`; a URL with a query is none.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    plain.then_some((name, value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_urls_comments_or_variables() {
        let text = "# all\nHOST = 127.0.0.1:8000\n\nhttp://$(HOST)/a?b=1\n  ${HOST}/c\nhttps://d.example/\n";
        assert_eq!(
            urls(text).unwrap(),
            [
                "http://127.0.0.1:8000/a?b=1",
                "http://127.0.0.1:8000/c",
                "https://d.example/"
            ]
        );
        assert!(urls("http://a/ POST x=1").unwrap_err().contains("a body"));
    }

    #[test]
    fn the_option_is_found_in_each_spelling() {
        let check = |line: &str, expected: Option<(usize, usize, &str)>| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let found = option(&words);
            assert_eq!(
                found
                    .as_ref()
                    .map(|(at, length, path)| (*at, *length, path.as_str())),
                expected,
                "{line}"
            );
        };
        check("siege -c 2 -f u.txt -r 1", Some((3, 2, "u.txt")));
        check("siege -fu.txt", Some((1, 1, "u.txt")));
        check("siege --file=u.txt", Some((1, 1, "u.txt")));
        check("siege --file u.txt", Some((1, 2, "u.txt")));
        check("siege -c 2 http://a/", None);
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let words = ["siege", "-f", "/no/such/file", "-r", "1"].map(str::to_owned);
        let sentence = from_file(&words).unwrap_err();
        assert!(sentence.contains("/no/such/file"), "{sentence}");
    }
}
