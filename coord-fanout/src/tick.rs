//! The tick.
mod clock;
mod due;
