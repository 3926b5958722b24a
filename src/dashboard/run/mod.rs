//! One run: live, then its report.

pub mod answered;
pub mod belief;
pub mod figures;
#[cfg(test)]
mod fixture;
pub mod handler;
pub mod keys;
pub mod old;
pub mod pages;
pub mod rail;
mod scale;
pub mod view;
