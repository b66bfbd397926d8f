//! One change of a served API: the kinds are kro's, with those that kro does not look at, and a sentence for each.

use std::fmt;

use kross_diagnostics::Code;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $word:literal $code:ident,)*) => {
        /// What kind of change.
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

            /// The code of a diagnostic about it, where it breaks.
            #[must_use]
            pub fn code(self) -> Code {
                match self { $(Self::$name => Code::$code,)* }
            }
        }
    };
}

kinds! {
    /// A property is gone.
    PropertyRemoved = "PROPERTY_REMOVED" PropertyRemoved,
    /// A property is new; breaking where it is required and has no default.
    PropertyAdded = "PROPERTY_ADDED" RequirementAdded,
    /// A property has another type.
    TypeChanged = "TYPE_CHANGED" TypeChanged,
    /// A property is required that was not.
    RequiredAdded = "REQUIRED_ADDED" RequirementAdded,
    /// A property is required no more.
    RequiredRemoved = "REQUIRED_REMOVED" RequirementAdded,
    /// A required property has lost its default.
    RequiredDefaultRemoved = "REQUIRED_DEFAULT_REMOVED" RequirementAdded,
    /// A default is new, gone or another.
    DefaultChanged = "DEFAULT_CHANGED" ConstraintTightened,
    /// A description is another.
    DescriptionChanged = "DESCRIPTION_CHANGED" ConstraintTightened,
    /// Only certain values are allowed where all were.
    EnumAdded = "ENUM_ADDED" ConstraintTightened,
    /// All values are allowed where only certain ones were.
    EnumRemoved = "ENUM_REMOVED" ConstraintTightened,
    /// A value is allowed no more.
    EnumRestricted = "ENUM_RESTRICTED" ConstraintTightened,
    /// A value is allowed that was not.
    EnumExpanded = "ENUM_EXPANDED" ConstraintTightened,
    /// A pattern is new.
    PatternAdded = "PATTERN_ADDED" ConstraintTightened,
    /// A pattern is gone.
    PatternRemoved = "PATTERN_REMOVED" ConstraintTightened,
    /// A pattern is another.
    PatternChanged = "PATTERN_CHANGED" ConstraintTightened,
    /// A format is new.
    FormatAdded = "FORMAT_ADDED" ConstraintTightened,
    /// A format is gone.
    FormatRemoved = "FORMAT_REMOVED" ConstraintTightened,
    /// A format is another.
    FormatChanged = "FORMAT_CHANGED" ConstraintTightened,
    /// A minimum is new.
    MinimumAdded = "MINIMUM_ADDED" ConstraintTightened,
    /// A minimum is gone.
    MinimumRemoved = "MINIMUM_REMOVED" ConstraintTightened,
    /// A minimum is higher.
    MinimumIncreased = "MINIMUM_INCREASED" ConstraintTightened,
    /// A minimum is lower.
    MinimumDecreased = "MINIMUM_DECREASED" ConstraintTightened,
    /// A maximum is new.
    MaximumAdded = "MAXIMUM_ADDED" ConstraintTightened,
    /// A maximum is gone.
    MaximumRemoved = "MAXIMUM_REMOVED" ConstraintTightened,
    /// A maximum is higher.
    MaximumIncreased = "MAXIMUM_INCREASED" ConstraintTightened,
    /// A maximum is lower.
    MaximumDecreased = "MAXIMUM_DECREASED" ConstraintTightened,
    /// A shortest length is new.
    MinLengthAdded = "MIN_LENGTH_ADDED" ConstraintTightened,
    /// A shortest length is gone.
    MinLengthRemoved = "MIN_LENGTH_REMOVED" ConstraintTightened,
    /// A shortest length is higher.
    MinLengthIncreased = "MIN_LENGTH_INCREASED" ConstraintTightened,
    /// A shortest length is lower.
    MinLengthDecreased = "MIN_LENGTH_DECREASED" ConstraintTightened,
    /// A longest length is new.
    MaxLengthAdded = "MAX_LENGTH_ADDED" ConstraintTightened,
    /// A longest length is gone.
    MaxLengthRemoved = "MAX_LENGTH_REMOVED" ConstraintTightened,
    /// A longest length is higher.
    MaxLengthIncreased = "MAX_LENGTH_INCREASED" ConstraintTightened,
    /// A longest length is lower.
    MaxLengthDecreased = "MAX_LENGTH_DECREASED" ConstraintTightened,
    /// A least number of items is new.
    MinItemsAdded = "MIN_ITEMS_ADDED" ConstraintTightened,
    /// A least number of items is gone.
    MinItemsRemoved = "MIN_ITEMS_REMOVED" ConstraintTightened,
    /// A least number of items is higher.
    MinItemsIncreased = "MIN_ITEMS_INCREASED" ConstraintTightened,
    /// A least number of items is lower.
    MinItemsDecreased = "MIN_ITEMS_DECREASED" ConstraintTightened,
    /// A largest number of items is new.
    MaxItemsAdded = "MAX_ITEMS_ADDED" ConstraintTightened,
    /// A largest number of items is gone.
    MaxItemsRemoved = "MAX_ITEMS_REMOVED" ConstraintTightened,
    /// A largest number of items is higher.
    MaxItemsIncreased = "MAX_ITEMS_INCREASED" ConstraintTightened,
    /// A largest number of items is lower.
    MaxItemsDecreased = "MAX_ITEMS_DECREASED" ConstraintTightened,
    /// A least number of entries is new.
    MinPropertiesAdded = "MIN_PROPERTIES_ADDED" ConstraintTightened,
    /// A least number of entries is gone.
    MinPropertiesRemoved = "MIN_PROPERTIES_REMOVED" ConstraintTightened,
    /// A least number of entries is higher.
    MinPropertiesIncreased = "MIN_PROPERTIES_INCREASED" ConstraintTightened,
    /// A least number of entries is lower.
    MinPropertiesDecreased = "MIN_PROPERTIES_DECREASED" ConstraintTightened,
    /// A largest number of entries is new.
    MaxPropertiesAdded = "MAX_PROPERTIES_ADDED" ConstraintTightened,
    /// A largest number of entries is gone.
    MaxPropertiesRemoved = "MAX_PROPERTIES_REMOVED" ConstraintTightened,
    /// A largest number of entries is higher.
    MaxPropertiesIncreased = "MAX_PROPERTIES_INCREASED" ConstraintTightened,
    /// A largest number of entries is lower.
    MaxPropertiesDecreased = "MAX_PROPERTIES_DECREASED" ConstraintTightened,
    /// Numbers must be multiples of another number.
    MultipleOfChanged = "MULTIPLE_OF_CHANGED" ConstraintTightened,
    /// A validation rule is new.
    ValidationAdded = "VALIDATION_ADDED" ConstraintTightened,
    /// A validation rule is gone.
    ValidationRemoved = "VALIDATION_REMOVED" ConstraintTightened,
    /// A validation rule says something else when it is broken.
    ValidationMessageChanged = "VALIDATION_MESSAGE_CHANGED" ConstraintTightened,
    /// Items are told apart in another way.
    ListTypeChanged = "LIST_TYPE_CHANGED" ConstraintTightened,
    /// Entries are merged in another way.
    MapTypeChanged = "MAP_TYPE_CHANGED" ConstraintTightened,
    /// Null is allowed.
    NullableAdded = "NULLABLE_ADDED" ConstraintTightened,
    /// Null is allowed no more.
    NullableRemoved = "NULLABLE_REMOVED" ConstraintTightened,
    /// Unknown fields are kept.
    PreserveUnknownAdded = "PRESERVE_UNKNOWN_ADDED" PropertyRemoved,
    /// Unknown fields are kept no more.
    PreserveUnknownRemoved = "PRESERVE_UNKNOWN_REMOVED" PropertyRemoved,
    /// The value is a whole object of Kubernetes, or is it no more.
    EmbeddedResourceChanged = "EMBEDDED_RESOURCE_CHANGED" ConstraintTightened,
    /// What must hold of several schemas is another.
    CombinationChanged = "COMBINATION_CHANGED" ConstraintTightened,
    /// A version is gone.
    VersionRemoved = "VERSION_REMOVED" ServingChanged,
    /// A version is new.
    VersionAdded = "VERSION_ADDED" ServingChanged,
    /// A version is served no more.
    ServedRemoved = "SERVED_REMOVED" ServingChanged,
    /// A version is served.
    ServedAdded = "SERVED_ADDED" ServingChanged,
    /// Status is a subresource no more.
    StatusRemoved = "STATUS_SUBRESOURCE_REMOVED" ServingChanged,
    /// Status is a subresource.
    StatusAdded = "STATUS_SUBRESOURCE_ADDED" ServingChanged,
    /// The scope is another.
    ScopeChanged = "SCOPE_CHANGED" ServingChanged,
    /// The group is another.
    GroupChanged = "GROUP_CHANGED" ServingChanged,
    /// A name of the kind is another.
    NamesChanged = "NAMES_CHANGED" ServingChanged,
    /// `kubectl get` shows other columns.
    PrinterColumnsChanged = "PRINTER_COLUMNS_CHANGED" ServingChanged,
    /// A label or annotation of the CRD is another.
    MetadataChanged = "METADATA_CHANGED" ServingChanged,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What kind of change.
    pub kind: ChangeKind,
    /// Whether instances or clients may not survive it.
    pub breaking: bool,
    /// Where: a field of the instance such as `spec.ports[].name`, or of the CRD; empty for the instance itself.
    pub path: String,
    /// What was there, in short.
    pub old: String,
    /// What is there now, in short.
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
            ChangeKind::EnumRestricted => write!(f, "`{path}` no longer takes the value {old}"),
            ChangeKind::EnumExpanded => write!(f, "`{path}` also takes the value {new}"),
            ChangeKind::VersionRemoved => write!(f, "version `{old}` is removed"),
            ChangeKind::VersionAdded => write!(f, "version `{new}` is added"),
            ChangeKind::ServedRemoved => write!(f, "version `{old}` is no longer served"),
            ChangeKind::ServedAdded => write!(f, "version `{new}` is served"),
            ChangeKind::StatusRemoved => f.write_str("the status subresource is removed"),
            ChangeKind::StatusAdded => f.write_str("the status subresource is added"),
            ChangeKind::PreserveUnknownAdded => write!(f, "`{path}` keeps unknown fields"),
            ChangeKind::PreserveUnknownRemoved => write!(f, "`{path}` no longer keeps unknown fields"),
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
    /// What the change is about, in words: `MIN_LENGTH_INCREASED` is about the min length.
    fn subject(self) -> String {
        let word = self.as_str();
        let subject = word.rsplit_once('_').map_or(word, |(subject, _)| subject);
        subject.replace('_', " ").to_lowercase()
    }
}
