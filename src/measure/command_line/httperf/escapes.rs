//! httperf's escapes in `--add-header`.

/// httperf's own escapes: `\n`, `\r`, `\a`, `\\` and octal.
pub(super) fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('n' | 'a') => plain.push('\n'),
            Some('r') => plain.push('\r'),
            Some(digit @ '0'..='7') => {
                let mut code = digit.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    let Some(next) = chars.peek().and_then(|c| c.to_digit(8)) else {
                        break;
                    };
                    code = code * 8 + next;
                    chars.next();
                }
                plain.push(char::from_u32(code).unwrap_or('\u{fffd}'));
            }
            Some(other) => plain.push(other),
            None => {}
        }
    }
    plain
}
