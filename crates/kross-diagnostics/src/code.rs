//! The closed set of kinds of mistake, each with a stable identifier and a long explanation. Blocks of numbers
//! follow the walk: 01 YAML, 02 definition, 03 SimpleSchema, 04 `${}`, 05 CEL syntax, 06 CEL types, 07 templates
//! against schemas, 08 graph, 09 placement and lifecycle, 10 evaluation, 11 compatibility of CRDs.

use std::fmt;

use crate::Severity;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $id:literal $severity:ident,)*) => {
        /// What kind of mistake a diagnostic is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            /// Every code, in the order of identifiers.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The stable identifier, such as `K0201`.
            #[must_use]
            pub fn id(self) -> &'static str {
                match self {
                    $(Self::$name => $id,)*
                }
            }

            /// The severity that a diagnostic of this code begins with.
            #[must_use]
            pub fn severity(self) -> Severity {
                match self {
                    $(Self::$name => Severity::$severity,)*
                }
            }

            /// The long explanation as Markdown: what is wrong, an example, how to mend it. The first line is the title.
            #[must_use]
            pub fn explanation(self) -> &'static str {
                match self {
                    $(Self::$name => include_str!(concat!("codes/", $id, ".md")),)*
                }
            }
        }
    };
}

// One line of documentation and one line of table for each code; `codes/Kxxxx.md` explains it.
codes! {
    // 01 YAML

    // 02 definition

    /// The schema's kind is not a Kubernetes kind.
    InvalidKind = "K0201" Error,

    // 03 SimpleSchema

    // 04 `${}`

    /// A `${` without the `}` that belongs to it.
    UnterminatedExpression = "K0401" Error,
    /// Nothing between `${` and `}`.
    EmptyExpression = "K0402" Error,
    /// A `${` inside an expression.
    NestedExpression = "K0403" Error,
    /// A string literal in an expression that is never closed.
    UnterminatedString = "K0404" Error,

    // 05 CEL syntax

    // 06 CEL types

    // 07 templates against schemas

    // 08 graph

    // 09 placement and lifecycle

    // 10 evaluation

    // 11 compatibility of CRDs
}

impl Code {
    /// The explanation's title: one line, without the leading `#`.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.explanation().lines().next().unwrap_or("").trim_start_matches('#').trim()
    }

    /// Finds a code by its identifier, in any case.
    #[must_use]
    pub fn find(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.id().eq_ignore_ascii_case(id.trim()))
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}
