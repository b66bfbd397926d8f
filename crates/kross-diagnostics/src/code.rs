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
    /// The text is not YAML.
    InvalidYaml = "K0101" Error,
    /// A quote or bracket is never closed.
    UnclosedYaml = "K0102" Error,
    /// A tab where YAML wants blanks.
    TabInYaml = "K0103" Error,
    /// A key stands twice in one mapping.
    DuplicateKey = "K0104" Error,
    /// A key that cannot be the name of a field.
    InvalidKey = "K0105" Error,
    /// An alias for something that is not there.
    UnknownAlias = "K0106" Error,
    /// A merge of something that is no mapping.
    InvalidMerge = "K0107" Error,
    /// A number that JSON does not have.
    NotANumber = "K0108" Error,
    /// A tag that the value does not agree with.
    InvalidTag = "K0109" Error,
    /// The text is not UTF-8.
    InvalidEncoding = "K0110" Error,
    /// The text is larger than the limits allow.
    YamlTooLarge = "K0111" Error,
    /// The values are nested deeper than the limits allow.
    YamlTooDeep = "K0112" Error,
    /// A word that YAML 1.1 reads as a boolean.
    BooleanWord = "K0113" Warning,
    /// A tag that has no meaning here.
    UnknownTag = "K0114" Warning,
    /// The schema's kind is not a Kubernetes kind.
    InvalidKind = "K0201" Error,
    /// Two resources have the same id.
    DuplicateId = "K0220" Error,
    /// An id or variable is a word that kro or CEL keeps for itself.
    ReservedName = "K0221" Error,
    /// An id or variable is not in lower camel case.
    InvalidName = "K0222" Error,
    /// A resource has both a template and an external reference, or neither.
    TemplateOrExternalRef = "K0223" Error,
    /// A template lacks apiVersion, kind or metadata.
    MissingTemplateField = "K0224" Error,
    /// The apiVersion or kind of a template is an expression.
    ExpressionInKind = "K0225" Error,
    /// A place that takes one expression has text around it or none.
    NotStandalone = "K0226" Error,
    /// A forEach variable is used twice or is the id of a resource.
    DuplicateVariable = "K0227" Error,
    /// A resource has more forEach axes than allowed.
    TooManyAxes = "K0228" Error,
    /// An external reference has forEach.
    ForEachOnExternalRef = "K0229" Error,
    /// The definition has a field that does not exist.
    UnknownDefinitionField = "K0230" Error,
    /// A field of the definition has a value that the API does not take.
    InvalidDefinitionField = "K0231" Error,
    /// The version of the served API is not a Kubernetes version.
    InvalidSchemaVersion = "K0232" Error,
    /// A status field is not an expression.
    LiteralStatus = "K0233" Error,
    /// The text has no ResourceGraphDefinition in it.
    NoDefinition = "K0234" Error,
    /// `schema.spec` or `schema.types` is not a map.
    SchemaNotMap = "K0301" Error,
    /// A field is neither text nor a map.
    FieldNotType = "K0302" Error,
    /// A field's text has no type.
    TypeMissing = "K0303" Error,
    /// A type is neither built in nor among the custom types.
    UnknownSchemaType = "K0304" Error,
    /// A list or map does not say what it holds, or is not closed.
    IncompleteType = "K0305" Error,
    /// A map has keys that are not strings.
    MapKeyNotString = "K0306" Error,
    /// A type nests too many lists and maps.
    TypeTooDeep = "K0307" Error,
    /// Custom types contain themselves.
    CyclicTypes = "K0308" Error,
    /// A custom type has the name of a built-in one.
    TypeShadowed = "K0309" Warning,
    /// The schema is too deep or too large.
    SchemaTooLarge = "K0310" Error,
    /// A field is written as OpenAPI.
    OpenApiInSimpleSchema = "K0311" Error,
    /// A marker has no name or no value.
    MarkerIncomplete = "K0312" Error,
    /// A marker has an unknown name.
    UnknownMarker = "K0313" Error,
    /// A quote or bracket in a marker is not closed, or closed twice.
    MarkerUnclosed = "K0314" Error,
    /// A marker is given twice.
    MarkerRepeated = "K0315" Warning,
    /// A marker's value is not what the marker needs.
    InvalidMarkerValue = "K0316" Error,
    /// A marker is for another type of value.
    MarkerNotApplicable = "K0317" Error,
    /// A default is not a value of its type.
    InvalidDefault = "K0318" Error,
    /// The values of an enum are empty or of the wrong type.
    InvalidEnum = "K0319" Error,
    /// A pattern is not a regular expression.
    InvalidPattern = "K0320" Error,
    /// Markers of one field contradict each other.
    ConflictingMarkers = "K0321" Error,
    /// A list's key is not a field that every item has.
    InvalidListMapKey = "K0322" Error,
    /// A default is refused by the field's own markers.
    DefaultRefused = "K0323" Error,
    /// A validation rule is not an expression that gives true or false.
    InvalidValidation = "K0324" Error,
    /// A `${` without the `}` that belongs to it, which is text.
    UnterminatedExpression = "K0401" Warning,
    /// Nothing between `${` and `}`.
    EmptyExpression = "K0402" Error,
    /// A `${` inside an expression.
    NestedExpression = "K0403" Error,
    /// A string literal in an expression that is never closed.
    UnterminatedString = "K0404" Error,
    /// A word stands where the grammar wants another.
    UnexpectedToken = "K0501" Error,
    /// A character that no word of the language begins with.
    UnexpectedCharacter = "K0502" Error,
    /// A string is not closed.
    UnclosedString = "K0503" Error,
    /// A string has an escape that does not exist.
    InvalidEscape = "K0504" Error,
    /// A number is malformed or out of range.
    InvalidNumber = "K0505" Error,
    /// A bracket is not closed, or closes nothing.
    UnbalancedBracket = "K0506" Error,
    /// A reserved word names a variable or a function.
    ReservedWord = "K0507" Error,
    /// A macro has the wrong number of arguments.
    MacroArguments = "K0508" Error,
    /// A macro's variable is not a plain name.
    MacroVariable = "K0509" Error,
    /// `has()` is not given a field.
    InvalidHas = "K0510" Error,
    /// An expression is too long, too deep or has too many parts.
    ExpressionTooLarge = "K0511" Error,
    /// There is no expression.
    MissingExpression = "K0512" Error,
    /// A conditional inside another needs parentheses.
    NestedConditional = "K0513" Error,
    /// An operator of another language.
    UnknownOperator = "K0514" Error,
    /// A macro with two variables gives both the same name.
    DuplicateMacroVariable = "K0515" Error,
    /// A variable does not exist here.
    UndeclaredReference = "K0601" Error,
    /// A function does not exist.
    UnknownFunction = "K0602" Error,
    /// An object has no such field.
    UndefinedField = "K0603" Error,
    /// A function or operator does not take these types.
    NoMatchingOverload = "K0604" Error,
    /// A function has the wrong number of arguments.
    WrongArgumentCount = "K0605" Error,
    /// A condition is not a bool.
    NotBoolean = "K0606" Error,
    /// A macro goes over something that is neither a list nor a map.
    NotIterable = "K0607" Error,
    /// The branches of a conditional differ in type.
    IncompatibleBranches = "K0608" Error,
    /// A field is taken from something that has none.
    NotSelectable = "K0609" Error,
    /// An optional is needed.
    NotOptional = "K0610" Error,
    /// A struct literal names a type that cannot be built.
    UnknownType = "K0611" Error,
    /// Two values of different types are compared.
    IncomparableTypes = "K0612" Error,
    /// A value cannot be indexed like this.
    InvalidIndex = "K0613" Error,
    /// A field of a struct literal gets a value of another type.
    WrongFieldType = "K0614" Error,
    /// A function is called like a method, or the other way round.
    WrongCallStyle = "K0615" Error,
    /// `transformMapEntry` gives something that is no map.
    NotAMapEntry = "K0616" Error,
    /// Values of this type have no order.
    NotSortable = "K0617" Error,
    /// A format and the values put into it do not fit.
    WrongFormat = "K0618" Error,
    /// A template has a field that its kind does not have.
    UnknownField = "K0701" Error,
    /// A literal in a template is of the wrong type.
    WrongKind = "K0702" Error,
    /// A literal is not among the values that the field takes.
    ValueNotAllowed = "K0703" Error,
    /// A literal does not match the pattern of its field.
    PatternMismatch = "K0704" Error,
    /// A literal is too small, too large, too short or too long.
    OutOfRange = "K0705" Error,
    /// A literal is not of the format of its field.
    InvalidFormat = "K0706" Error,
    /// A kind exists, but not in the group and version given.
    UnknownApiVersion = "K0709" Error,
    /// Two items of a list are the same where none may be.
    DuplicateListItem = "K0710" Error,
    /// A CustomResourceDefinition cannot be used as a schema.
    InvalidCrd = "K0711" Error,
    /// The type of an expression does not fit the field it is written to.
    NotAssignable = "K0720" Error,
    /// An expression inside text is not a string.
    TextNeedsString = "K0721" Error,
    /// A template sets a label or annotation that kross keeps for itself.
    ReservedLabel = "K0722" Error,
    /// A cluster-scoped object has a namespace.
    NamespaceOnClusterScoped = "K0723" Error,
    /// A namespaced object of a cluster-scoped instance has no namespace.
    NamespaceRequired = "K0724" Error,
    /// A CustomResourceDefinition template has an expression outside of metadata.
    ExpressionInCrd = "K0725" Error,
    /// omit() stands where nothing can be left out.
    OmitNotAllowed = "K0726" Error,
    /// Resources need each other.
    Cycle = "K0801" Error,
    /// A resource reads itself.
    SelfReference = "K0802" Error,
    /// An expression uses a name that exists but is not available in its place.
    OutOfContext = "K0803" Error,
    /// No schema is known for the kind of a template or reference.
    UnknownKind = "K0804" Error,
    /// A condition does not give a bool.
    ConditionNotBool = "K0805" Error,
    /// A forEach expression does not give a list.
    ForEachNotList = "K0806" Error,
    /// A forEach variable does not appear in the identity of the objects.
    VariableNotInIdentity = "K0807" Error,
    /// Two resources are the same object.
    SameObject = "K0808" Error,
    /// A status expression reads neither the schema nor a resource.
    StatusReadsNothing = "K0809" Error,
    /// An author-defined condition is not made with runtime.newCondition.
    InvalidCondition = "K0810" Error,
    /// Two author-defined conditions have the same type.
    DuplicateCondition = "K0811" Error,
    /// An author-defined condition reads another, or one that does not exist.
    ConditionReference = "K0812" Error,
    /// `cluster` and `target` on one level.
    TwoClusterReferences = "K0901" Error,
    /// A cluster on a resource and on its external reference.
    ClusterNamedTwice = "K0902" Error,
    /// `kubeconfigSecret` beside `kubeconfigSecretRef`.
    TwoKubeconfigSecrets = "K0903" Error,
    /// `namespace` or `key` beside `kubeconfigSecret` or `kubeconfigSecretRef`.
    MisplacedSecretField = "K0904" Error,
    /// No protocol or several in `target`.
    TargetProtocol = "K0905" Error,
    /// Neither or both of `name` and `selector` in `kubernetesTarget`.
    KubernetesTargetChoice = "K0906" Error,
    /// A duration in `pollConfig` that is none.
    InvalidPollConfig = "K0907" Error,
    /// A `kubeconfigSecretRef` that names no Secret.
    MalformedSecretReference = "K0909" Error,
    /// A name, namespace or key that no Secret can have.
    InvalidSecretAddress = "K0910" Error,
    /// The cluster of a definition depends on one of its resources.
    ClusterReadsResource = "K0920" Error,
    /// A resource that inherits the cluster of a long-spelled reference depends on another.
    InheritedDependency = "K0921" Error,
    /// The poll interval is below the minimum.
    PollTooOften = "K0922" Error,
    /// A reference to a published cluster, which kross cannot connect to yet.
    PublishedCluster = "K0923" Error,
    /// delete.after names a resource that does not exist.
    UnknownAfter = "K0930" Error,
    /// Resources wait for each other in deletion.
    DeletionCycle = "K0931" Error,
    /// delete.policy is neither Delete nor Retain nor an expression that gives one.
    InvalidPolicy = "K0932" Error,
    /// delete.order is not an integer.
    InvalidOrder = "K0933" Error,
    /// A duration is not one.
    InvalidDuration = "K0934" Error,
    /// A resource depends on one that exists only during deletion.
    NeedsDeletionResource = "K0935" Error,
    /// An expression reads what is not there yet.
    NotThereYet = "K1001" Error,
    /// An expression failed when it ran.
    EvaluationFailed = "K1002" Error,
    /// A property is gone that instances may have.
    PropertyRemoved = "K1101" Error,
    /// A property has another type than before.
    TypeChanged = "K1102" Error,
    /// A property is required that was not.
    RequirementAdded = "K1103" Error,
    /// A property takes fewer values than before.
    ConstraintTightened = "K1104" Error,
    /// A version, the scope or a subresource is not as before.
    ServingChanged = "K1105" Error,
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
