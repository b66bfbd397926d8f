//! kro's `omit()`: a value that omits its own field when it is written to an object.

use std::any::Any;

use super::Opaque;

/// The result of `omit()`.
#[derive(Clone, Copy, Debug)]
pub struct Omit;

impl Opaque for Omit {
    fn type_name(&self) -> &'static str {
        "kro.run.Omit"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().is::<Self>()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
