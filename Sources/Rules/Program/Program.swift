internal import Tree

/// The compiled expressions of one set of rules: all operations in one array, and the data to which they refer.
struct Program: Sendable {
    var operations: ContiguousArray<Op> = []
    /// The position of each operation in the text of its expression.
    var spans: ContiguousArray<Range<Int32>> = []
    /// The operands of operations that take any number of them.
    var references: ContiguousArray<OpRef> = []
    var texts: [String] = []
    var keys: [Key] = []
    var regexes: [Regex] = []
    /// The remaining cost for more regular expressions.
    var regexBudget = RuleSet.maxRegexCost

    @inline(__always)
    subscript(ref: OpRef) -> Op { operations[Int(ref.index)] }

    mutating func append(_ operation: Op, at span: Range<Int32>) -> OpRef {
        operations.append(operation)
        spans.append(span)
        return OpRef(index: Int32(operations.count - 1))
    }

    mutating func append(_ list: [OpRef]) -> OpList {
        let start = references.count
        references.append(contentsOf: list)
        return OpList(start: Int32(start), count: Int32(list.count))
    }

    mutating func append(_ text: String) -> Int32 {
        texts.append(text)
        return Int32(texts.count - 1)
    }

    mutating func append(_ key: Key) -> Int32 {
        keys.append(key)
        return Int32(keys.count - 1)
    }

    mutating func append(_ regex: Regex) -> Int32 {
        regexes.append(regex)
        return Int32(regexes.count - 1)
    }
}

/// One operation of a compiled expression. Operations are trivial values in one array and refer to their operands by index, so
/// an evaluation counts no references and allocates nothing.
enum Op {
    // Booleans.
    case boolean(Bool)
    case not(OpRef)
    case all(OpList)
    case any(OpList)
    case equal(OpRef, OpRef)
    case unequal(OpRef, OpRef)
    case compare(Relation, OpRef, OpRef)
    case exists(OpRef)
    case hasAnyChild(OpRef)
    /// A snapshot, and `list` operations.
    case hasChildren(OpRef, OpList)
    case isString(OpRef)
    case isNumber(OpRef)
    case isBoolean(OpRef)
    case contains(OpRef, OpRef)
    case beginsWith(OpRef, OpRef)
    case endsWith(OpRef, OpRef)
    /// A value, and an index of `Program.regexes`.
    case matches(OpRef, Int32)
    case orderFlag(QueryOrder)

    // Values.
    case null
    case number(Double)
    /// An index of `Program.texts`.
    case text(Int32)
    case now
    /// The key at this depth of the walk.
    case capture(Int32)
    case auth
    /// A member of an auth value, by an index of `Program.keys`.
    case member(OpRef, Int32)
    /// A member of an auth value, by a computed name.
    case element(OpRef, OpRef)
    case queryField(QueryField)
    case value(OpRef)
    case priority(OpRef)
    case length(OpRef)
    case negate(OpRef)
    case arithmetic(Arithmetic, OpRef, OpRef)
    /// Two or more operands of `+`, from the left.
    case sum(OpList)
    case replace(OpRef, OpRef, OpRef)
    case lowercase(OpRef)
    case uppercase(OpRef)

    // Snapshots.
    /// `data`, `newData` or `root`, some levels up.
    case location(RuleTree, levelsUp: Int32)
    /// A snapshot, and path parts.
    case child(OpRef, OpList)
    case parent(OpRef)

    // Path parts.
    /// One key, an index of `Program.keys`.
    case key(Int32)
    /// A value that must be a string, and may contain slashes.
    case path(OpRef)
    /// A value that was joined to strings by `+`, so that it may also be a number.
    case joined(OpRef)
    /// The parts of one path: an item of `hasChildren`.
    case list(OpList)

    // Anything.
    case choose(OpRef, OpRef, OpRef)
}

extension Op {
    /// Whether the operation itself reads data or the clock. Its operands are not considered.
    var looksAround: Bool {
        switch self {
        case .location, .now: true
        default: false
        }
    }
}

/// The index of an operation.
struct OpRef: Equatable {
    let index: Int32
}

/// A range of `Program.references`.
struct OpList {
    let start: Int32
    let count: Int32
}

enum Relation {
    case less
    case lessOrEqual
    case greater
    case greaterOrEqual
}

enum Arithmetic {
    case subtract
    case multiply
    case divide
    case remainder
}

enum RuleTree {
    /// The tree before the operation, at the rule's node.
    case data
    /// The tree after the operation, at the rule's node.
    case newData
    /// The tree before the operation, at the root.
    case root
}

enum QueryOrder {
    case key
    case value
    case priority
}

enum QueryField {
    case orderByChild
    case startAt
    case endAt
    case equalTo
    case limitToFirst
    case limitToLast
}
