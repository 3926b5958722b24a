//! Each cause, check and title of throughput runs on a course whose truth is known.

use super::*;

#[test]
fn the_peer_is_named_with_its_port() {
    let object = serde_json::json!({"host": "::1"});
    let object = object.as_object().unwrap();
    let caps = crate::measure::plan::Caps::default();
    let plan = crate::measure::plan::throughput::from_json(object, &caps).unwrap();
    assert_eq!(peer_name(&plan), "[::1]:5001");
}
