//! Pure codecs between bytes and messages; "not complete yet" is never an error.

pub mod http1;
