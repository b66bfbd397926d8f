//! Turns an object into the reason why it is not ready: the shortest chain to what blocks it, one sentence, and the command
//! that helps.

mod advice;
mod answer;
mod definition;
mod deletion;
mod investigation;
mod object;
mod resource;
mod workload;

pub use answer::{Answer, Link};
pub use investigation::{Investigation, WhyError};
