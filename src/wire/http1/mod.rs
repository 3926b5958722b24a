//! HTTP/1.1 as a client speaks it: requests to bytes, bytes of any split to replies.

mod chunked;
mod framing;
mod names;
mod reply;
mod request;

pub use names::{Names, Naming, Timing};
pub use reply::{CONTENT_LIMIT, Cut, Decoder, HEAD_LIMIT, Step};
pub use request::{Connection, Request};
