//! Time, as a worker sees it: how this node's clock goes, how long answers take, and when it looks after what nobody answered.

mod beat;
mod pace;
mod times;

pub use beat::Beat;
pub use pace::Pace;
pub use times::{MOST_TIMEOUTS, Times};
