//! One run: live, then its report.

pub mod answered;
pub mod belief;
pub mod drawings;
pub mod echo_parts;
pub mod ends;
pub mod figures;
pub mod files;
#[cfg(test)]
mod fixture;
pub mod flow_keys;
mod flow_rail;
mod flow_words;
pub mod handler;
pub mod imported;
pub mod keys;
pub mod limits;
pub mod old;
pub mod pages;
pub mod prove;
pub mod rail;
mod scale;
mod streams;
pub mod table;
pub mod view;
