/// The type of an expression, as far as it is known at upload (reference: security-rules 4).
enum StaticType: Equatable {
    case snapshot
    /// A stored primitive of unknown type.
    case value
    case boolean
    case number
    case string
    case null
    /// `auth` and anything reached from it.
    case auth
    case query
    /// A bound or limit of `query`: a string, a number, a boolean or null, with the methods of strings.
    case queryValue
    /// `query.orderByChild`: a string or null, without members.
    case ordering
    /// The result of a conditional whose branches have different types that are not both primitive.
    case mixed
    case regex
    /// A method that is named, but not (yet) called.
    case method(Method)

    private var isPrimitive: Bool {
        switch self {
        case .boolean, .number, .string, .null, .value: true
        default: false
        }
    }

    /// Whether the type is valid for operands of `==` and `!=`.
    var isComparable: Bool {
        switch self {
        case .boolean, .number, .string, .null, .value, .auth, .queryValue, .ordering, .mixed: true
        default: false
        }
    }

    /// Whether the type is valid for operands of `<` and `+`.
    var isOrdered: Bool {
        switch self {
        case .number, .string, .value, .auth, .queryValue, .ordering, .mixed: true
        default: false
        }
    }

    /// Whether the type is valid for operands of the other arithmetic operators.
    var isNumeric: Bool {
        switch self {
        case .number, .value, .auth, .queryValue, .ordering, .mixed: true
        default: false
        }
    }

    /// Whether the type is valid for arguments that must be strings.
    var isStringLike: Bool {
        switch self {
        case .string, .value, .auth, .mixed: true
        default: false
        }
    }

    /// Returns the type of `+`.
    static func sum(_ left: StaticType, _ right: StaticType) -> StaticType {
        if left == .string || right == .string { return .string }
        return left == .number && right == .number ? .number : .value
    }

    /// Returns the type of a conditional.
    static func either(_ then: StaticType, _ otherwise: StaticType) -> StaticType {
        if then == otherwise { return then }
        return then.isPrimitive && otherwise.isPrimitive ? .value : .mixed
    }
}

/// The methods of snapshots and strings.
enum Method: String {
    case val
    case getPriority
    case exists
    case child
    case parent
    case hasChild
    case hasChildren
    case isString
    case isNumber
    case isBoolean
    case contains
    case beginsWith
    case endsWith
    case replace
    case toLowerCase
    case toUpperCase
    case matches

    var isOfStrings: Bool {
        switch self {
        case .contains, .beginsWith, .endsWith, .replace, .toLowerCase, .toUpperCase, .matches: true
        default: false
        }
    }
}
