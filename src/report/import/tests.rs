//! Texts that are worth a unit test; those of real tools are among the integration tests.

use super::*;

#[test]
fn garbage_is_answered_with_its_line() {
    let error = read("\n\nhello world\n").unwrap_err();
    assert_eq!(error.line, Some(3));
    assert!(error.message.contains("line 3"), "{error}");
    assert!(error.message.contains("hello world"), "{error}");
    let error = read("  \n").unwrap_err();
    assert_eq!(error.line, None);
    assert!(error.message.contains("empty"), "{error}");
}
