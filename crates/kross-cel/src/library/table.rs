//! Merges libraries into one table: overloads with ids and parsed signatures, looked up by function name.

use std::collections::HashMap;
use std::fmt;

use super::signature::{Signature, SignatureError};
use super::{Implementation, Library};
use crate::types::Type;

/// Identifies an overload in one table. Ids are dense and start at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OverloadId(pub u32);

/// An overload with its signature parsed.
#[derive(Clone)]
pub struct DeclaredOverload {
    /// The function's name.
    pub function: &'static str,
    /// The signature as declared, for messages.
    pub text: &'static str,
    /// The signature.
    pub signature: Signature,
    /// The code.
    pub implementation: Implementation,
}

impl fmt::Debug for DeclaredOverload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

/// All functions of an environment.
#[derive(Clone, Debug, Default)]
pub struct FunctionTable {
    overloads: Vec<DeclaredOverload>,
    names: HashMap<&'static str, Vec<OverloadId>>,
    namespaces: Vec<&'static str>,
    types: Vec<Type>,
}

impl FunctionTable {
    /// The functions of these libraries. Overloads of the same name from several libraries are merged, in order.
    ///
    /// # Errors
    /// If a signature is invalid.
    pub fn new<'a>(libraries: impl IntoIterator<Item = &'a Library>) -> Result<Self, SignatureError> {
        let mut table = Self::default();
        for library in libraries {
            table.extend(library)?;
        }
        table.namespaces.sort_unstable();
        table.namespaces.dedup();
        Ok(table)
    }

    fn extend(&mut self, library: &Library) -> Result<(), SignatureError> {
        for function in library.functions {
            if let Some((namespace, _)) = function.name.rsplit_once('.') {
                self.namespaces.push(namespace);
            }
            let ids = self.names.entry(function.name).or_default();
            for overload in function.overloads {
                let signature = Signature::parse(function.name, overload.signature)?;
                // Two libraries may declare the same overload; a duplicate would make its result type `dyn`.
                let known = ids.iter().filter_map(|id| self.overloads.get(id.0 as usize));
                if known.into_iter().any(|known: &DeclaredOverload| known.signature.is_same(&signature)) {
                    continue;
                }
                for opaque in signature.opaque_types() {
                    if !self.types.contains(&opaque) {
                        self.types.push(opaque);
                    }
                }
                ids.push(OverloadId(u32::try_from(self.overloads.len()).unwrap_or(u32::MAX)));
                self.overloads.push(DeclaredOverload {
                    function: function.name,
                    text: overload.signature,
                    signature,
                    implementation: overload.implementation,
                });
            }
        }
        Ok(())
    }

    /// The overloads of a function, if there is one of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&[OverloadId]> {
        self.names.get(name).map(Vec::as_slice)
    }

    /// An overload by its id.
    #[must_use]
    pub fn overload(&self, id: OverloadId) -> Option<&DeclaredOverload> {
        self.overloads.get(id.0 as usize)
    }

    /// The names of all functions, in no particular order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.names.keys().copied()
    }

    /// Whether a name is the namespace of functions, as `math` in `math.greatest`.
    #[must_use]
    pub fn is_namespace(&self, name: &str) -> bool {
        self.namespaces.binary_search(&name).is_ok()
    }

    /// Whether a namespace begins with this part, as `a` of `a.b.f`.
    #[must_use]
    pub fn is_namespace_root(&self, name: &str) -> bool {
        self.namespaces.iter().any(|namespace| {
            namespace.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }

    /// The opaque types in the signatures.
    #[must_use]
    pub fn opaque_types(&self) -> &[Type] {
        &self.types
    }
}
