//! A change of a served API. The kinds of changes are kro's, and those that kro does not compare.

use std::fmt;

use kross_diagnostics::Code;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $word:literal $code:ident,)*) => {
        /// The kind of a change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ChangeKind {
            $($(#[$doc])* $name,)*
        }

        impl ChangeKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The stable name: `PROPERTY_REMOVED`.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// The code of its diagnostic, if it is breaking.
            #[must_use]
            pub fn code(self) -> Code {
                match self { $(Self::$name => Code::$code,)* }
            }
        }
    };
}

kinds! {
    /// A property was removed.
    PropertyRemoved = "PROPERTY_REMOVED" PropertyRemoved,
    /// A property was added; breaking if it is required and has no default.
    PropertyAdded = "PROPERTY_ADDED" RequirementAdded,
    /// The type of a property changed.
    TypeChanged = "TYPE_CHANGED" TypeChanged,
    /// A property became required.
    RequiredAdded = "REQUIRED_ADDED" RequirementAdded,
    /// A property is no longer required.
    RequiredRemoved = "REQUIRED_REMOVED" RequirementAdded,
    /// The default of a required property was removed.
    RequiredDefaultRemoved = "REQUIRED_DEFAULT_REMOVED" RequirementAdded,
    /// A default was added, removed or changed.
    DefaultChanged = "DEFAULT_CHANGED" ConstraintTightened,
    /// A description changed.
    DescriptionChanged = "DESCRIPTION_CHANGED" ConstraintTightened,
    /// An enum was added.
    EnumAdded = "ENUM_ADDED" ConstraintTightened,
    /// An enum was removed.
    EnumRemoved = "ENUM_REMOVED" ConstraintTightened,
    /// A value was removed from an enum.
    EnumRestricted = "ENUM_RESTRICTED" ConstraintTightened,
    /// A value was added to an enum.
    EnumExpanded = "ENUM_EXPANDED" ConstraintTightened,
    /// A pattern was added.
    PatternAdded = "PATTERN_ADDED" ConstraintTightened,
    /// A pattern was removed.
    PatternRemoved = "PATTERN_REMOVED" ConstraintTightened,
    /// A pattern changed.
    PatternChanged = "PATTERN_CHANGED" ConstraintTightened,
    /// A format was added.
    FormatAdded = "FORMAT_ADDED" ConstraintTightened,
    /// A format was removed.
    FormatRemoved = "FORMAT_REMOVED" ConstraintTightened,
    /// A format changed.
    FormatChanged = "FORMAT_CHANGED" ConstraintTightened,
    /// A minimum was added.
    MinimumAdded = "MINIMUM_ADDED" ConstraintTightened,
    /// A minimum was removed.
    MinimumRemoved = "MINIMUM_REMOVED" ConstraintTightened,
    /// A minimum was increased.
    MinimumIncreased = "MINIMUM_INCREASED" ConstraintTightened,
    /// A minimum was decreased.
    MinimumDecreased = "MINIMUM_DECREASED" ConstraintTightened,
    /// A maximum was added.
    MaximumAdded = "MAXIMUM_ADDED" ConstraintTightened,
    /// A maximum was removed.
    MaximumRemoved = "MAXIMUM_REMOVED" ConstraintTightened,
    /// A maximum was increased.
    MaximumIncreased = "MAXIMUM_INCREASED" ConstraintTightened,
    /// A maximum was decreased.
    MaximumDecreased = "MAXIMUM_DECREASED" ConstraintTightened,
    /// `minLength` was added.
    MinLengthAdded = "MIN_LENGTH_ADDED" ConstraintTightened,
    /// `minLength` was removed.
    MinLengthRemoved = "MIN_LENGTH_REMOVED" ConstraintTightened,
    /// `minLength` was increased.
    MinLengthIncreased = "MIN_LENGTH_INCREASED" ConstraintTightened,
    /// `minLength` was decreased.
    MinLengthDecreased = "MIN_LENGTH_DECREASED" ConstraintTightened,
    /// `maxLength` was added.
    MaxLengthAdded = "MAX_LENGTH_ADDED" ConstraintTightened,
    /// `maxLength` was removed.
    MaxLengthRemoved = "MAX_LENGTH_REMOVED" ConstraintTightened,
    /// `maxLength` was increased.
    MaxLengthIncreased = "MAX_LENGTH_INCREASED" ConstraintTightened,
    /// `maxLength` was decreased.
    MaxLengthDecreased = "MAX_LENGTH_DECREASED" ConstraintTightened,
    /// `minItems` was added.
    MinItemsAdded = "MIN_ITEMS_ADDED" ConstraintTightened,
    /// `minItems` was removed.
    MinItemsRemoved = "MIN_ITEMS_REMOVED" ConstraintTightened,
    /// `minItems` was increased.
    MinItemsIncreased = "MIN_ITEMS_INCREASED" ConstraintTightened,
    /// `minItems` was decreased.
    MinItemsDecreased = "MIN_ITEMS_DECREASED" ConstraintTightened,
    /// `maxItems` was added.
    MaxItemsAdded = "MAX_ITEMS_ADDED" ConstraintTightened,
    /// `maxItems` was removed.
    MaxItemsRemoved = "MAX_ITEMS_REMOVED" ConstraintTightened,
    /// `maxItems` was increased.
    MaxItemsIncreased = "MAX_ITEMS_INCREASED" ConstraintTightened,
    /// `maxItems` was decreased.
    MaxItemsDecreased = "MAX_ITEMS_DECREASED" ConstraintTightened,
    /// `minProperties` was added.
    MinPropertiesAdded = "MIN_PROPERTIES_ADDED" ConstraintTightened,
    /// `minProperties` was removed.
    MinPropertiesRemoved = "MIN_PROPERTIES_REMOVED" ConstraintTightened,
    /// `minProperties` was increased.
    MinPropertiesIncreased = "MIN_PROPERTIES_INCREASED" ConstraintTightened,
    /// `minProperties` was decreased.
    MinPropertiesDecreased = "MIN_PROPERTIES_DECREASED" ConstraintTightened,
    /// `maxProperties` was added.
    MaxPropertiesAdded = "MAX_PROPERTIES_ADDED" ConstraintTightened,
    /// `maxProperties` was removed.
    MaxPropertiesRemoved = "MAX_PROPERTIES_REMOVED" ConstraintTightened,
    /// `maxProperties` was increased.
    MaxPropertiesIncreased = "MAX_PROPERTIES_INCREASED" ConstraintTightened,
    /// `maxProperties` was decreased.
    MaxPropertiesDecreased = "MAX_PROPERTIES_DECREASED" ConstraintTightened,
    /// `multipleOf` changed.
    MultipleOfChanged = "MULTIPLE_OF_CHANGED" ConstraintTightened,
    /// A validation rule was added.
    ValidationAdded = "VALIDATION_ADDED" ConstraintTightened,
    /// A validation rule was removed.
    ValidationRemoved = "VALIDATION_REMOVED" ConstraintTightened,
    /// The message of a validation rule changed.
    ValidationMessageChanged = "VALIDATION_MESSAGE_CHANGED" ConstraintTightened,
    /// The list type changed.
    ListTypeChanged = "LIST_TYPE_CHANGED" ConstraintTightened,
    /// The map type changed.
    MapTypeChanged = "MAP_TYPE_CHANGED" ConstraintTightened,
    /// Null became allowed.
    NullableAdded = "NULLABLE_ADDED" ConstraintTightened,
    /// Null is no longer allowed.
    NullableRemoved = "NULLABLE_REMOVED" ConstraintTightened,
    /// Unknown fields are now preserved.
    PreserveUnknownAdded = "PRESERVE_UNKNOWN_ADDED" PropertyRemoved,
    /// Unknown fields are no longer preserved.
    PreserveUnknownRemoved = "PRESERVE_UNKNOWN_REMOVED" PropertyRemoved,
    /// The value became, or is no longer, an embedded Kubernetes object.
    EmbeddedResourceChanged = "EMBEDDED_RESOURCE_CHANGED" ConstraintTightened,
    /// `allOf`, `anyOf`, `oneOf` or `not` changed.
    CombinationChanged = "COMBINATION_CHANGED" ConstraintTightened,
    /// A version was removed.
    VersionRemoved = "VERSION_REMOVED" ServingChanged,
    /// A version was added.
    VersionAdded = "VERSION_ADDED" ServingChanged,
    /// A version is no longer served.
    ServedRemoved = "SERVED_REMOVED" ServingChanged,
    /// A version became served.
    ServedAdded = "SERVED_ADDED" ServingChanged,
    /// The status subresource was removed.
    StatusRemoved = "STATUS_SUBRESOURCE_REMOVED" ServingChanged,
    /// The status subresource was added.
    StatusAdded = "STATUS_SUBRESOURCE_ADDED" ServingChanged,
    /// The scope changed.
    ScopeChanged = "SCOPE_CHANGED" ServingChanged,
    /// The group changed.
    GroupChanged = "GROUP_CHANGED" ServingChanged,
    /// A name of the kind changed.
    NamesChanged = "NAMES_CHANGED" ServingChanged,
    /// The printer columns changed.
    PrinterColumnsChanged = "PRINTER_COLUMNS_CHANGED" ServingChanged,
    /// A label or annotation of the CRD changed.
    MetadataChanged = "METADATA_CHANGED" ServingChanged,
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The kind of the change.
    pub kind: ChangeKind,
    /// Whether it may break instances or clients.
    pub breaking: bool,
    /// The field of the instance, such as `spec.ports[].name`, or of the CRD; empty for the instance itself.
    pub path: String,
    /// The old value, if it is short enough to show.
    pub old: String,
    /// The new value, if it is short enough to show.
    pub new: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { old, new, .. } = self;
        let path = if self.path.is_empty() { "the object" } else { &self.path };
        match self.kind {
            ChangeKind::PropertyRemoved => write!(f, "property `{path}` is removed"),
            ChangeKind::PropertyAdded if self.breaking => {
                write!(f, "required property `{path}` is added without a default")
            }
            ChangeKind::PropertyAdded => write!(f, "property `{path}` is added"),
            ChangeKind::TypeChanged => write!(f, "type of `{path}` changes from {old} to {new}"),
            ChangeKind::RequiredAdded => write!(f, "`{path}` becomes required"),
            ChangeKind::RequiredRemoved => write!(f, "`{path}` is no longer required"),
            ChangeKind::RequiredDefaultRemoved => {
                write!(f, "`{path}` is required and loses its default {old}")
            }
            ChangeKind::EnumRestricted => write!(f, "`{path}` no longer accepts the value {old}"),
            ChangeKind::EnumExpanded => write!(f, "`{path}` also accepts the value {new}"),
            ChangeKind::VersionRemoved => write!(f, "version `{old}` is removed"),
            ChangeKind::VersionAdded => write!(f, "version `{new}` is added"),
            ChangeKind::ServedRemoved => write!(f, "version `{old}` is no longer served"),
            ChangeKind::ServedAdded => write!(f, "version `{new}` is served"),
            ChangeKind::StatusRemoved => f.write_str("the status subresource is removed"),
            ChangeKind::StatusAdded => f.write_str("the status subresource is added"),
            ChangeKind::PreserveUnknownAdded => write!(f, "`{path}` preserves unknown fields"),
            ChangeKind::PreserveUnknownRemoved => write!(f, "`{path}` no longer preserves unknown fields"),
            ChangeKind::NullableAdded => write!(f, "`{path}` may be null"),
            ChangeKind::NullableRemoved => write!(f, "`{path}` may no longer be null"),
            ChangeKind::ScopeChanged
            | ChangeKind::GroupChanged
            | ChangeKind::NamesChanged
            | ChangeKind::MetadataChanged => self.write_values(&format!("`{path}`"), f),
            ChangeKind::PrinterColumnsChanged => self.write_values("the list of printer columns", f),
            kind => self.write_values(&format!("{} of `{path}`", kind.subject()), f),
        }
    }
}

impl Change {
    fn write_values(&self, subject: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { old, new, .. } = self;
        match (old.is_empty(), new.is_empty()) {
            (true, true) => write!(f, "{subject} changes"),
            (true, false) => write!(f, "{subject} is added: {new}"),
            (false, true) => write!(f, "{subject} is removed: {old}"),
            (false, false) => write!(f, "{subject} changes from {old} to {new}"),
        }
    }
}

impl ChangeKind {
    /// The subject of the change for messages: `min length` for `MIN_LENGTH_INCREASED`.
    fn subject(self) -> String {
        let word = self.as_str();
        let subject = word.rsplit_once('_').map_or(word, |(subject, _)| subject);
        subject.replace('_', " ").to_lowercase()
    }
}
