//! Making a failure small.
//!
//! [`search`] decides what to leave out and in which order, [`oracle`] runs candidates on the
//! worker processes, [`words`] says what is left. How a set or a number is made smaller is the
//! business of the crate `shaketable-minimise`.

pub mod oracle;
pub mod search;
pub mod words;
