//! The HTTP engine against servers that misbehave: every outcome by its name, every request counted, every run ended.

use serde_json::json;
use tidemark::measure::outcome::Outcome;

use crate::support::load::go;
use crate::support::misbehave::Misbehave;

#[test]
fn every_misbehaviour_has_its_outcome() {
    let server = Misbehave::start();
    for (path, outcome) in [
        ("/ok", Outcome::Ok),
        ("/untilclose", Outcome::Ok),
        ("/trailers", Outcome::Ok),
        ("/204", Outcome::Ok),
        ("/304", Outcome::Ok),
        ("/100", Outcome::Ok),
        ("/103", Outcome::Ok),
        ("/close", Outcome::Ok),
        ("/http10", Outcome::Ok),
        ("/301", Outcome::Ok),
        ("/loop", Outcome::Ok),
        ("/extra", Outcome::Ok),
        ("/large", Outcome::Ok),
        ("/404", Outcome::Http4xx),
        ("/500", Outcome::Http5xx),
        ("/600", Outcome::HttpOther),
        ("/garbage", Outcome::InvalidReply),
        ("/100s", Outcome::InvalidReply),
        ("/101", Outcome::InvalidReply),
        ("/twolengths", Outcome::InvalidReply),
        ("/bigheader", Outcome::InvalidReply),
        ("/manyheaders", Outcome::InvalidReply),
        ("/trunc", Outcome::Truncated),
        ("/truncchunk", Outcome::Truncated),
        ("/halfhdr", Outcome::Truncated),
        ("/eof", Outcome::EmptyReply),
        ("/rst", Outcome::ResetBeforeReply),
        ("/rstbody", Outcome::ResetInBody),
    ] {
        let done = go(
            &json!({"kind": "rate", "url": server.url(path), "rate": 100, "num_conns": 3, "timeout_s": 5}),
        );
        println!("{path} {:?}", done.outcomes());
        done.all(outcome);
        let done = go(
            &json!({"kind": "users", "url": server.url(path), "concurrent": 2, "reps": 2, "timeout_s": 5, "keep_alive": true}),
        );
        println!("{path} {:?}", done.outcomes());
        done.all(outcome);
    }
}
