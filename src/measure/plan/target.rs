//! Where requests may be addressed: a strict grammar of URLs, checked on the text as it was written.
//!
//! Browsers and resolvers read `127.1`, `0x7f.1` and `2852039166` as addresses. Here a host is a name
//! of letters, digits and hyphens, or an address in its full form, and nothing else.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::Value;
use url::{Host, Url};

use super::WeightedUrl;
use super::fields::{Fields, Range, shown};

/// Longest URL that is taken.
const MAX_URL: usize = 8_000;
/// Most URLs in one plan.
const MAX_URLS: usize = 1_000;

/// Reads an absolute `http` or `https` URL.
///
/// # Errors
///
/// A sentence that says what to change.
pub fn parse_url(text: &str) -> Result<Url, String> {
    if text.is_empty() {
        return Err("The URL is empty: write one such as http://127.0.0.1:8000/.".to_owned());
    }
    if text.len() > MAX_URL {
        return Err(format!("The URL is longer than {MAX_URL} characters."));
    }
    if let Some(bad) = text
        .chars()
        .find(|c| c.is_whitespace() || c.is_control() || *c == '\\')
    {
        let name = match bad {
            '\\' => "a backslash",
            ' ' => "a space (write %20)",
            _ => "a control character or white space",
        };
        return Err(format!("The URL {} holds {name}.", shown(text)));
    }
    let (scheme, rest) = text.split_once("://").ok_or_else(|| {
        format!(
            "The URL {} does not begin with http:// or https://.",
            shown(text)
        )
    })?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(format!(
            "Only http:// and https:// are spoken here, not {}://.",
            shown(scheme)
        ));
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.contains('@') {
        return Err(
            "The URL holds a user name or password: send them in an Authorization header instead."
                .to_owned(),
        );
    }
    if path.contains('#') {
        return Err(
            "The URL holds a fragment (#…), which is never sent to a server: leave it out."
                .to_owned(),
        );
    }
    let written = check_authority(authority)?;
    let url = Url::parse(text)
        .map_err(|why| format!("The URL {} cannot be read: {why}.", shown(text)))?;
    // The parser must have understood the very host that was checked above.
    let same = match (&written, url.host()) {
        (Host::Domain(name), Some(Host::Domain(parsed))) => name.eq_ignore_ascii_case(parsed),
        (Host::Ipv4(address), Some(Host::Ipv4(parsed))) => *address == parsed,
        (Host::Ipv6(address), Some(Host::Ipv6(parsed))) => *address == parsed,
        _ => false,
    };
    if same {
        Ok(url)
    } else {
        Err(format!(
            "The host in {} is not a plain name or address.",
            shown(text)
        ))
    }
}

/// Checks `host[:port]` as it was written.
fn check_authority(authority: &str) -> Result<Host<&str>, String> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (inside, after) = rest
            .split_once(']')
            .ok_or_else(|| "The URL's IPv6 address is not closed with ].".to_owned())?;
        let address: Ipv6Addr = inside
            .parse()
            .map_err(|_| format!("{} is not an IPv6 address.", shown(inside)))?;
        match after.strip_prefix(':') {
            Some(port) => check_port(port)?,
            None if after.is_empty() => {}
            None => {
                return Err(format!(
                    "After the IPv6 address comes a port or a path, not {}.",
                    shown(after)
                ));
            }
        }
        return Ok(Host::Ipv6(address));
    }
    let host = match authority.split_once(':') {
        Some((_, port)) if port.contains(':') => {
            return Err("An IPv6 address stands in brackets: http://[::1]:8000/.".to_owned());
        }
        Some((host, port)) => {
            check_port(port)?;
            host
        }
        None => authority,
    };
    check_host(host)
}

fn check_port(port: &str) -> Result<(), String> {
    let good = !port.is_empty()
        && port.len() <= 5
        && port.bytes().all(|byte| byte.is_ascii_digit())
        && port.parse::<u16>().is_ok_and(|port| port > 0);
    if good {
        Ok(())
    } else {
        Err(format!(
            "The port {} is not a number from 1 to 65535.",
            shown(port)
        ))
    }
}

/// A host is a dotted IPv4 address of four decimal numbers or a name of letters, digits and hyphens.
pub(super) fn check_host(host: &str) -> Result<Host<&str>, String> {
    if host.is_empty() {
        return Err("The URL names no host.".to_owned());
    }
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return Ok(Host::Ipv4(address));
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    let last = name.rsplit('.').next().unwrap_or_default();
    if looks_numeric(last) {
        return Err(format!(
            "The host {} looks like a number: write an IPv4 address as four numbers from 0 to 255, such as 127.0.0.1.",
            shown(host)
        ));
    }
    if name.len() > 253 {
        return Err(format!(
            "The host name {} is longer than 253 characters.",
            shown(host)
        ));
    }
    let good = name.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    });
    if good {
        Ok(Host::Domain(host))
    } else {
        Err(format!(
            "The host name {} is not made of letters, digits and hyphens, in parts of 1 to 63 characters joined by dots.",
            shown(host)
        ))
    }
}

/// What resolvers may take for a decimal, octal or hexadecimal number.
fn looks_numeric(label: &str) -> bool {
    let hexadecimal = label
        .strip_prefix("0x")
        .or_else(|| label.strip_prefix("0X"))
        .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    hexadecimal || (!label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit()))
}

/// `url` or `urls`: exactly one of them.
pub(super) fn take_urls(fields: &mut Fields<'_>) -> Vec<WeightedUrl> {
    let one = fields.take("url");
    let many = fields.take("urls");
    match (one, many) {
        (Some(_), Some(_)) => {
            fields.refuse("urls", "Give url or urls, not both.");
            Vec::new()
        }
        (None, None) => {
            fields.refuse(
                "url",
                "The URL is missing: set url, such as http://127.0.0.1:8000/.",
            );
            Vec::new()
        }
        (Some(value), None) => take_url(fields, "url", value)
            .map(|url| WeightedUrl { url, weight: 1 })
            .into_iter()
            .collect(),
        (None, Some(value)) => take_list(fields, value),
    }
}

/// The single `url` of a plan that has only one.
pub(super) fn take_single(fields: &mut Fields<'_>) -> Option<Url> {
    let Some(value) = fields.take("url") else {
        fields.refuse(
            "url",
            "The URL is missing: set url, such as http://127.0.0.1:8000/.",
        );
        return None;
    };
    take_url(fields, "url", value)
}

fn take_url(fields: &mut Fields<'_>, field: &str, value: &Value) -> Option<Url> {
    let parsed = value
        .as_str()
        .ok_or_else(|| "The URL must be a text in quotation marks.".to_owned())
        .and_then(parse_url);
    match parsed {
        Ok(url) => Some(url),
        Err(message) => {
            fields.refuse(field, message);
            None
        }
    }
}

fn take_list(fields: &mut Fields<'_>, value: &Value) -> Vec<WeightedUrl> {
    let list = match value.as_array() {
        Some(list) if (1..=MAX_URLS).contains(&list.len()) => list,
        Some(list) => {
            fields.refuse(
                "urls",
                format!(
                    "urls must name 1 to {MAX_URLS} URLs; it names {}.",
                    list.len()
                ),
            );
            return Vec::new();
        }
        None => {
            fields.refuse("urls", "urls must be a list of {\"url\", \"weight\"}.");
            return Vec::new();
        }
    };
    let weights = Range {
        name: "Weight",
        min: 1.0,
        max: 1_000_000.0,
        unit: "",
        set_by: None,
    };
    let mut urls = Vec::with_capacity(list.len());
    for (index, entry) in list.iter().enumerate() {
        let place = format!("urls[{index}]");
        let Some(entry) = entry.as_object() else {
            fields.refuse(
                &place,
                "Each of urls must be an object with url and, where it is not 1, weight.",
            );
            continue;
        };
        if let Some(key) = entry.keys().find(|key| *key != "url" && *key != "weight") {
            fields.refuse(
                &place,
                format!("Each of urls has url and weight, but no {}.", shown(key)),
            );
        }
        let Some(url) = entry.get("url") else {
            fields.refuse(&place, "The URL is missing: set url.");
            continue;
        };
        let url = take_url(fields, &place, url);
        let weight = match entry.get("weight") {
            None | Some(Value::Null) => Some(1),
            Some(weight) => fields.checked_whole(&place, weight, &weights),
        };
        if let (Some(url), Some(weight)) = (url, weight.and_then(|w| u32::try_from(w).ok())) {
            urls.push(WeightedUrl { url, weight });
        }
    }
    urls
}

/// `url` where there is one of weight 1, else `urls`.
pub(super) fn fill_urls(urls: &[WeightedUrl], object: &mut serde_json::Map<String, Value>) {
    if let [WeightedUrl { url, weight: 1 }] = urls {
        object.insert("url".to_owned(), url.as_str().into());
        return;
    }
    let list: Vec<Value> = urls
        .iter()
        .map(|one| serde_json::json!({"url": one.url.as_str(), "weight": one.weight}))
        .collect();
    object.insert("urls".to_owned(), list.into());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_urls_are_read() {
        for (text, expected) in [
            ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/"),
            ("http://127.0.0.1", "http://127.0.0.1/"),
            (
                "HTTP://Web-1.Example:80/a?b=c",
                "http://web-1.example/a?b=c",
            ),
            ("https://[::1]:8443/", "https://[::1]:8443/"),
            ("http://localhost?x", "http://localhost/?x"),
            ("http://example.com./", "http://example.com./"),
            ("http://1.2.3.4.example/", "http://1.2.3.4.example/"),
        ] {
            assert_eq!(parse_url(text).unwrap().as_str(), expected, "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_a_sentence() {
        let long = format!("http://{}/", "a".repeat(64));
        let huge = format!("http://h/{}", "a".repeat(100_000));
        for text in [
            "",
            "127.0.0.1:8000",
            "ftp://h/",
            "file:///etc/passwd",
            "http://",
            "http:///x",
            "http://user@h/",
            "http://user:pw@h/",
            "http://h/#top",
            "http://h:0/",
            "http://h:/",
            "http://h:65536/",
            "http://h:+80/",
            "http://h:80:90/",
            "http://::1/",
            "http://[::1/",
            "http://[::1]x/",
            "http://[fe80::1%25eth0]/",
            "http://0x7f.1/",
            "http://2852039166/",
            "http://127.1/",
            "http://0177.0.0.1/",
            "http://0xa9fea9fe/",
            "http://0/",
            "http://127.0.0.1./",
            "http://256.1.1.1/",
            "http://1.2.3.4.5/",
            "http://0x/",
            "http://a_b/",
            "http://-a/",
            "http://a-/",
            "http://a..b/",
            "http://./",
            "http://%31%32%37.0.0.1/",
            "http://ａ.example/",
            "http://①②⑦.0.0.1/",
            "http://bücher.example/",
            "http://h\\evil/",
            "http://h/a b",
            "http://h/\r\nX: y",
            "http://h\t/",
            "http:/h/",
            "//h/",
            "http://xn--/",
            long.as_str(),
            huge.as_str(),
        ] {
            let message = parse_url(text).expect_err(text);
            assert!(message.ends_with('.') && message.len() < 400, "{message}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_what_it_takes_it_takes_again(text in "\\PC*") {
            if let Ok(url) = parse_url(&text) {
                prop_assert_eq!(parse_url(url.as_str()), Ok(url.clone()));
            }
        }

        #[test]
        fn what_it_takes_it_takes_again(text in "(http|HTTPS)://[a-z0-9.\\-\\[\\]:x]{1,12}(:[0-9]{1,6})?(/[\\PC&&[^#]]{0,10})?(\\?[\\PC]{0,8})?") {
            if let Ok(url) = parse_url(&text) {
                prop_assert_eq!(parse_url(url.as_str()), Ok(url.clone()));
            }
        }
    }
}
