//! The closed set of diagnostic codes, each with a stable identifier and a long explanation. The blocks of numbers
//! follow the stages of compilation: 01 YAML, 02 definition, 03 SimpleSchema, 04 `${}`, 05 CEL syntax, 06 CEL types,
//! 07 templates against schemas, 08 graph, 09 placement and lifecycle, 10 evaluation, 11 compatibility of CRDs,
//! 12 tests of definitions.

use std::fmt;

use crate::Severity;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $id:literal $severity:ident,)*) => {
        /// The kind of problem that a diagnostic reports.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            /// Every code, ordered by identifier.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The stable identifier, such as `K0201`.
            #[must_use]
            pub fn id(self) -> &'static str {
                match self {
                    $(Self::$name => $id,)*
                }
            }

            /// The default severity of a diagnostic with this code.
            #[must_use]
            pub fn severity(self) -> Severity {
                match self {
                    $(Self::$name => Severity::$severity,)*
                }
            }

            /// The long explanation as Markdown: what is wrong, an example, how to fix it. The first line is the title.
            #[must_use]
            pub fn explanation(self) -> &'static str {
                match self {
                    $(Self::$name => include_str!(concat!("codes/", $id, ".md")),)*
                }
            }
        }
    };
}

// One doc line and one table line per code; `codes/Kxxxx.md` explains it.
codes! {
    /// The text is not valid YAML.
    InvalidYaml = "K0101" Error,
    /// A YAML quote or bracket is never closed.
    UnclosedYaml = "K0102" Error,
    /// A tab in YAML indentation.
    TabInYaml = "K0103" Error,
    /// A key occurs twice in one mapping.
    DuplicateKey = "K0104" Error,
    /// A key that cannot be the name of a field.
    InvalidKey = "K0105" Error,
    /// An alias for an anchor that does not exist.
    UnknownAlias = "K0106" Error,
    /// A merge of something that is not a mapping.
    InvalidMerge = "K0107" Error,
    /// A number that JSON cannot represent.
    NotANumber = "K0108" Error,
    /// A tag that does not match its value.
    InvalidTag = "K0109" Error,
    /// The text is not UTF-8.
    InvalidEncoding = "K0110" Error,
    /// The text is larger than the limits allow.
    YamlTooLarge = "K0111" Error,
    /// The values are nested deeper than the limits allow.
    YamlTooDeep = "K0112" Error,
    /// A word that YAML 1.1 parses as a boolean.
    BooleanWord = "K0113" Warning,
    /// A tag that is ignored.
    UnknownTag = "K0114" Warning,
    /// YAML that `kross fmt` does not format.
    NotFormatted = "K0115" Error,
    /// The schema's kind is not a Kubernetes kind.
    InvalidKind = "K0201" Error,
    /// Two resources have the same id.
    DuplicateId = "K0220" Error,
    /// An id or variable is a word that kro or CEL reserves.
    ReservedName = "K0221" Error,
    /// An id or variable is not in lower camel case.
    InvalidName = "K0222" Error,
    /// A resource has both a template and an external reference, or neither.
    TemplateOrExternalRef = "K0223" Error,
    /// A template lacks apiVersion, kind or metadata.
    MissingTemplateField = "K0224" Error,
    /// The apiVersion or kind of a template is an expression.
    ExpressionInKind = "K0225" Error,
    /// A field that must be one expression has text around it, or no expression.
    NotStandalone = "K0226" Error,
    /// A forEach variable is used twice or is the id of a resource.
    DuplicateVariable = "K0227" Error,
    /// A resource has more forEach axes than allowed.
    TooManyAxes = "K0228" Error,
    /// An external reference has forEach.
    ForEachOnExternalRef = "K0229" Error,
    /// The definition has a field that does not exist.
    UnknownDefinitionField = "K0230" Error,
    /// A field of the definition has a value that the API rejects.
    InvalidDefinitionField = "K0231" Error,
    /// The version of the served API is not a Kubernetes version.
    InvalidSchemaVersion = "K0232" Error,
    /// A status field is not an expression.
    LiteralStatus = "K0233" Error,
    /// The text contains no ResourceGraphDefinition.
    NoDefinition = "K0234" Error,
    /// `schema.status` next to `schema.externalRef`, where it has no effect.
    StatusOfExistingKind = "K0235" Warning,
    /// `schema.spec` or `schema.types` is not a map.
    SchemaNotMap = "K0301" Error,
    /// A field is neither text nor a map.
    FieldNotType = "K0302" Error,
    /// A field's text has no type.
    TypeMissing = "K0303" Error,
    /// A type is neither built in nor among the custom types.
    UnknownSchemaType = "K0304" Error,
    /// A list or map type has no element type, or is not closed.
    IncompleteType = "K0305" Error,
    /// A map has keys that are not strings.
    MapKeyNotString = "K0306" Error,
    /// A type nests lists and maps too deeply.
    TypeTooDeep = "K0307" Error,
    /// Custom types contain themselves.
    CyclicTypes = "K0308" Error,
    /// A custom type has the name of a built-in one.
    TypeShadowed = "K0309" Warning,
    /// The schema is too deep or too large.
    SchemaTooLarge = "K0310" Error,
    /// A field is written as an OpenAPI schema.
    OpenApiInSimpleSchema = "K0311" Error,
    /// A marker has no name or no value.
    MarkerIncomplete = "K0312" Error,
    /// A marker has an unknown name.
    UnknownMarker = "K0313" Error,
    /// A quote or bracket in a marker is unbalanced.
    MarkerUnclosed = "K0314" Error,
    /// A marker is given twice.
    MarkerRepeated = "K0315" Warning,
    /// A marker's value is not valid for the marker.
    InvalidMarkerValue = "K0316" Error,
    /// A marker does not apply to the field's type.
    MarkerNotApplicable = "K0317" Error,
    /// A default does not match its type.
    InvalidDefault = "K0318" Error,
    /// The values of an enum are empty or of the wrong type.
    InvalidEnum = "K0319" Error,
    /// A pattern is not a regular expression.
    InvalidPattern = "K0320" Error,
    /// Markers of one field contradict each other.
    ConflictingMarkers = "K0321" Error,
    /// A list map key is not a required field of the items.
    InvalidListMapKey = "K0322" Error,
    /// A default violates the field's own markers.
    DefaultRefused = "K0323" Error,
    /// A validation rule is not an expression that returns a bool.
    InvalidValidation = "K0324" Error,
    /// A `${` without its `}`, which is kept as text.
    UnterminatedExpression = "K0401" Warning,
    /// Nothing between `${` and `}`.
    EmptyExpression = "K0402" Error,
    /// A `${` inside an expression.
    NestedExpression = "K0403" Error,
    /// A string literal in an expression that is never closed.
    UnterminatedString = "K0404" Error,
    /// A token that the grammar does not allow here.
    UnexpectedToken = "K0501" Error,
    /// A character that no token starts with.
    UnexpectedCharacter = "K0502" Error,
    /// A string is not closed.
    UnclosedString = "K0503" Error,
    /// A string has an invalid escape sequence.
    InvalidEscape = "K0504" Error,
    /// A number is malformed or out of range.
    InvalidNumber = "K0505" Error,
    /// A bracket has no counterpart.
    UnbalancedBracket = "K0506" Error,
    /// A reserved word is used as the name of a variable or function.
    ReservedWord = "K0507" Error,
    /// A macro has the wrong number of arguments.
    MacroArguments = "K0508" Error,
    /// A macro's variable is not a plain name.
    MacroVariable = "K0509" Error,
    /// The argument of `has()` is not a field.
    InvalidHas = "K0510" Error,
    /// An expression is too long, too deeply nested or has too many nodes.
    ExpressionTooLarge = "K0511" Error,
    /// The expression is missing.
    MissingExpression = "K0512" Error,
    /// A nested conditional needs parentheses.
    NestedConditional = "K0513" Error,
    /// An operator of another language.
    UnknownOperator = "K0514" Error,
    /// Both variables of a macro have the same name.
    DuplicateMacroVariable = "K0515" Error,
    /// A variable does not exist in this scope.
    UndeclaredReference = "K0601" Error,
    /// A function does not exist.
    UnknownFunction = "K0602" Error,
    /// An object has no such field.
    UndefinedField = "K0603" Error,
    /// A function or operator does not accept these types.
    NoMatchingOverload = "K0604" Error,
    /// A function has the wrong number of arguments.
    WrongArgumentCount = "K0605" Error,
    /// A condition is not a bool.
    NotBoolean = "K0606" Error,
    /// A macro iterates over something that is neither a list nor a map.
    NotIterable = "K0607" Error,
    /// The branches of a conditional have different types.
    IncompatibleBranches = "K0608" Error,
    /// A field is selected from a value that has no fields.
    NotSelectable = "K0609" Error,
    /// A value must be an optional.
    NotOptional = "K0610" Error,
    /// A struct literal names a type that cannot be constructed.
    UnknownType = "K0611" Error,
    /// Two values of different types are compared.
    IncomparableTypes = "K0612" Error,
    /// A value cannot be indexed with this type.
    InvalidIndex = "K0613" Error,
    /// A field of a struct literal has a value of the wrong type.
    WrongFieldType = "K0614" Error,
    /// A global function is called as a method, or a method as a global function.
    WrongCallStyle = "K0615" Error,
    /// `transformMapEntry` returns something that is not a map.
    NotAMapEntry = "K0616" Error,
    /// The sort key cannot be ordered.
    NotSortable = "K0617" Error,
    /// A format string does not match its arguments.
    WrongFormat = "K0618" Error,
    /// A template has a field that its kind does not have.
    UnknownField = "K0701" Error,
    /// A literal in a template has the wrong type.
    WrongKind = "K0702" Error,
    /// A literal is not one of the values that the field allows.
    ValueNotAllowed = "K0703" Error,
    /// A literal does not match the pattern of its field.
    PatternMismatch = "K0704" Error,
    /// A literal is too small, too large, too short or too long.
    OutOfRange = "K0705" Error,
    /// A literal does not match the format of its field.
    InvalidFormat = "K0706" Error,
    /// A kind exists, but not in the group and version given.
    UnknownApiVersion = "K0709" Error,
    /// Two items of a set or keyed list are the same.
    DuplicateListItem = "K0710" Error,
    /// A CustomResourceDefinition cannot be used as a schema.
    InvalidCrd = "K0711" Error,
    /// A template lacks a field that its kind requires.
    MissingRequiredField = "K0712" Warning,
    /// An instance lacks a field that its kind requires.
    MissingInstanceField = "K0713" Error,
    /// The type of an expression does not match its field.
    NotAssignable = "K0720" Error,
    /// An expression inside a string does not return a string.
    TextNeedsString = "K0721" Error,
    /// A template sets a label or annotation that kross reserves.
    ReservedLabel = "K0722" Error,
    /// A cluster-scoped object has a namespace.
    NamespaceOnClusterScoped = "K0723" Error,
    /// A namespaced object of a cluster-scoped instance has no namespace.
    NamespaceRequired = "K0724" Error,
    /// A CustomResourceDefinition template has an expression outside `metadata`.
    ExpressionInCrd = "K0725" Error,
    /// omit() is used where nothing can be omitted.
    OmitNotAllowed = "K0726" Error,
    /// A template sets `status`, which the API server ignores.
    StatusInTemplate = "K0727" Warning,
    /// A literal name or namespace that the API server rejects.
    InvalidObjectName = "K0728" Warning,
    /// Resources depend on each other in a cycle.
    Cycle = "K0801" Error,
    /// A resource reads itself.
    SelfReference = "K0802" Error,
    /// An expression uses a name that exists but is not available in this scope.
    OutOfContext = "K0803" Error,
    /// No schema is known for the kind of a template or reference.
    UnknownKind = "K0804" Error,
    /// A condition does not return a bool.
    ConditionNotBool = "K0805" Error,
    /// A forEach expression does not return a list.
    ForEachNotList = "K0806" Error,
    /// A forEach variable does not appear in the identity of the objects.
    VariableNotInIdentity = "K0807" Error,
    /// Two resources are the same object.
    SameObject = "K0808" Error,
    /// A status expression reads neither the schema nor a resource.
    StatusReadsNothing = "K0809" Error,
    /// An author-defined condition is not created with runtime.newCondition.
    InvalidCondition = "K0810" Error,
    /// Two author-defined conditions have the same type.
    DuplicateCondition = "K0811" Error,
    /// An author-defined condition reads another, or one that does not exist.
    ConditionReference = "K0812" Error,
    /// Instances choose a Secret whose content reaches the status or another object.
    ChosenSecret = "K0813" Warning,
    /// `cluster` and `target` on the same level.
    TwoClusterReferences = "K0901" Error,
    /// A cluster on a resource and on its external reference.
    ClusterNamedTwice = "K0902" Error,
    /// Both `kubeconfigSecret` and `kubeconfigSecretRef`.
    TwoKubeconfigSecrets = "K0903" Error,
    /// `namespace` or `key` next to `kubeconfigSecret` or `kubeconfigSecretRef`.
    MisplacedSecretField = "K0904" Error,
    /// No protocol or several in `target`.
    TargetProtocol = "K0905" Error,
    /// Neither or both of `name` and `selector` in `kubernetesTarget`.
    KubernetesTargetChoice = "K0906" Error,
    /// An invalid duration in `pollConfig`.
    InvalidPollConfig = "K0907" Error,
    /// A `kubeconfigSecretRef` that is not a reference to a Secret.
    MalformedSecretReference = "K0909" Error,
    /// An invalid Secret name, namespace or key.
    InvalidSecretAddress = "K0910" Error,
    /// The cluster of a definition depends on one of its resources.
    ClusterReadsResource = "K0920" Error,
    /// A resource that inherits a cluster in the long spelling depends on another resource.
    InheritedDependency = "K0921" Error,
    /// The poll interval is below the minimum.
    PollTooOften = "K0922" Error,
    /// The namespace of a KubernetesTarget is missing, or not allowed.
    TargetNamespace = "K0924" Error,
    /// Instances choose the namespace of the credentials of a cluster.
    ChosenNamespace = "K0925" Warning,
    /// delete.after names a resource that does not exist.
    UnknownAfter = "K0930" Error,
    /// The deletion order has a cycle.
    DeletionCycle = "K0931" Error,
    /// delete.policy is neither Delete nor Retain nor an expression that returns one.
    InvalidPolicy = "K0932" Error,
    /// delete.order is not an integer.
    InvalidOrder = "K0933" Error,
    /// An invalid duration.
    InvalidDuration = "K0934" Error,
    /// A resource depends on one that exists only during deletion.
    NeedsDeletionResource = "K0935" Error,
    /// The ServiceAccount of the instances depends on a resource.
    AccessReadsResource = "K0940" Error,
    /// An invalid name of a ServiceAccount.
    InvalidServiceAccount = "K0941" Error,
    /// The namespace of a ServiceAccount is missing, not allowed, or not a literal.
    ServiceAccountNamespace = "K0942" Error,
    /// An expression reads a value that does not exist yet.
    NotThereYet = "K1001" Error,
    /// The evaluation of an expression failed.
    EvaluationFailed = "K1002" Error,
    /// A property that instances may have was removed.
    PropertyRemoved = "K1101" Error,
    /// The type of a property changed.
    TypeChanged = "K1102" Error,
    /// A property became required.
    RequirementAdded = "K1103" Error,
    /// A property accepts fewer values than before.
    ConstraintTightened = "K1104" Error,
    /// A version, the scope or a subresource changed.
    ServingChanged = "K1105" Error,
    /// A field of a fixture has a value that it cannot have.
    InvalidFixture = "K1201" Error,
    /// A fixture has a field that does not exist.
    UnknownFixtureField = "K1202" Error,
    /// A fixture names a definition, a resource, a kind or a cluster that does not exist.
    FixtureReference = "K1203" Error,
    /// The outcome of a test is not the expected one.
    ExpectationNotMet = "K1204" Error,
    /// The outcome of a test differs from its snapshot.
    SnapshotDiffers = "K1205" Error,
}

impl Code {
    /// The explanation's title: one line, without the leading `#`.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.explanation().lines().next().unwrap_or("").trim_start_matches('#').trim()
    }

    /// Finds a code by its identifier, ignoring case.
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
