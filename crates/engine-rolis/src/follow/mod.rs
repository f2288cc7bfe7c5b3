//! Following a stream: which of its entries may be believed, what is looked at and installed, and where in it another replica begins.

pub mod apply;
pub mod checked;
pub mod locate;
