//! Every error text of the door, in one place. Where Redis has the error, the text is Redis's: clients compare it.

mod command;
mod request;
mod texts;

pub use command::CommandError;
pub use request::{CallError, ProcedureError, RequestError};
