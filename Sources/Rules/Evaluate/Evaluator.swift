internal import Tree

/// One level of the walk from the root: its key, and the node before and after the operation.
struct Frame {
    let key: String
    let old: Node
    let new: Node
}

/// The values that an expression can read in addition to the walk.
struct EvaluationEnvironment {
    let auth: Node
    let now: Double
    let query: QueryContext
}

/// The parts of a write that an evaluation knows. An unknown part has no value yet, and neither has an expression that depends
/// on it.
enum Knowledge {
    case everything
    /// The new value is not known.
    case dataOnly
    /// Neither the new value nor the stored data is known, but only the caller, the path and the time.
    case callerOnly

    func includes(_ version: RuleTree) -> Bool {
        switch self {
        case .everything: true
        case .dataOnly: version != .newData
        case .callerOnly: false
        }
    }
}

/// Receives every value that an evaluation produces. `NoTracer`, which ignores them, costs nothing.
protocol EvaluationTracer {
    mutating func record(_ ref: OpRef, _ value: @autoclosure () -> Value)
}

struct NoTracer: EvaluationTracer {
    @inline(__always)
    mutating func record(_ ref: OpRef, _ value: @autoclosure () -> Value) {}
}

/// Evaluates compiled expressions at the walk's last frame (reference: security-rules 5).
///
/// Recursion is bounded by the parser's nesting limit, time by the steps: an expression that has used them up has no
/// value, like any other that fails.
///
/// `Walk` appends a frame for each key of the path, as far as the rules have nodes. For a rule at `/rooms/$room` and a write to
/// `/rooms/r1`:
///
///     frames              key       old                 new
///     0                   ""        root before         root after the write     <-- `root` is frames[0].old
///     1                   "rooms"   /rooms before       /rooms after
///     2 (the last)        "r1"      /rooms/r1 before    /rooms/r1 after          <-- `data` is old, `newData` is new
///                           ^
///                           `-- `$room` is capture(2): the key of frames[2]
///
/// `run` evaluates the operation of a rule, and an operation evaluates the operands that it needs: `test` returns a Boolean,
/// `value` a value, `node` a snapshot. `spend` charges steps for operations and for bytes of text.
///
/// The evaluation of a rule has one of three results:
///
/// - True or false.
/// - A failure, such as a type error or too many steps. The rule counts as false.
/// - `notKnown`: the result depends on data that `knowledge` excludes. A check that comes before the data is known then
///   refuses nothing.
struct Evaluator<Tracer: EvaluationTracer> {
    let program: Program
    let surroundings: EvaluationEnvironment
    /// The walk from the root to the node whose rule runs. This is the only allocation of an operation.
    var frames: ContiguousArray<Frame>
    var tracer: Tracer
    let knowledge: Knowledge
    private let maxSteps: Int
    private var steps = 0
    /// The number of steps left for the whole operation.
    private var stepsLeft: Int

    init(
        _ program: Program, _ surroundings: EvaluationEnvironment, limits: RuleLimits, tracer: Tracer,
        knowledge: Knowledge = .everything
    ) {
        self.program = program
        self.knowledge = knowledge
        self.surroundings = surroundings
        self.tracer = tracer
        maxSteps = limits.maxStepsPerRule
        stepsLeft = limits.maxStepsPerOperation
        frames = []
        frames.reserveCapacity(8)
    }

    /// Runs one rule at the last frame.
    mutating func run(_ ref: OpRef) throws(EvaluationError) -> Bool {
        let granted = min(maxSteps, stepsLeft)
        steps = granted
        defer { stepsLeft -= granted - max(steps, 0) }
        return try test(ref)
    }

    @inline(__always)
    mutating func spend(_ count: Int, _ ref: OpRef) throws(EvaluationError) {
        steps -= count
        guard steps < 0 else { return }
        // With full knowledge, the evaluation may not need the terms that have used up the steps here.
        throw EvaluationError(reason: knowledge == .everything ? .outOfSteps : .notKnown, ref: ref)
    }

    /// Charges for reading this many bytes.
    @inline(__always)
    mutating func spend(bytes: Int, _ ref: OpRef) throws(EvaluationError) {
        try spend(bytes >> 8, ref)
    }

    /// The number of bytes that this rule may still read.
    var remainingBytes: Int { (min(max(steps, 0), 1 << 40) + 1) << 8 }

    // MARK: Booleans

    mutating func test(_ ref: OpRef) throws(EvaluationError) -> Bool {
        let result = try untracedTest(ref)
        tracer.record(ref, .boolean(result))
        return result
    }

    @inline(__always)
    private mutating func untracedTest(_ ref: OpRef) throws(EvaluationError) -> Bool {
        try spend(1, ref)
        switch program[ref] {
        case .boolean(let value): return value
        case .not(let operand): return try !test(operand)
        case .all(let list): return try conjunction(list)
        case .any(let list): return try disjunction(list)
        case .equal(let left, let right): return try isEqual(left, right, ref)
        case .unequal(let left, let right): return try !isEqual(left, right, ref)
        case .compare(let relation, let left, let right): return try compare(relation, left, right, ref)
        case .exists(let snapshot): return try !node(snapshot).isNull
        case .hasAnyChild(let snapshot): return try node(snapshot).isBranch
        case .hasChildren(let snapshot, let lists): return try hasChildren(snapshot, lists)
        case .isString(let snapshot):
            if case .string = Value(try node(snapshot)) { return true }
            return false
        case .isNumber(let snapshot):
            if case .number = Value(try node(snapshot)) { return true }
            return false
        case .isBoolean(let snapshot):
            if case .boolean = Value(try node(snapshot)) { return true }
            return false
        case .contains(let text, let part): return try contains(text, part, ref)
        case .beginsWith(let text, let part): return try beginsWith(text, part, ref)
        case .endsWith(let text, let part): return try endsWith(text, part, ref)
        case .matches(let text, let regex): return try matches(text, program.regexes[Int(regex)], ref)
        case .orderFlag(let order): return surroundings.query.isOrdered(by: order)
        case .choose(let condition, let then, let otherwise): return try test(try test(condition) ? then : otherwise)
        default:
            assertionFailure("the compiled form of a Boolean is not a Boolean")
            return false
        }
    }

    /// Evaluates a conjunction. If a term is not known yet, the others may still decide that the result can't be true. The
    /// result is then false or a failure, which makes no difference to a rule.
    private mutating func conjunction(_ list: OpList) throws(EvaluationError) -> Bool {
        var unknown: EvaluationError?
        for index in list.start..<(list.start + list.count) {
            do throws(EvaluationError) {
                if try !test(program.references[Int(index)]) { return false }
            } catch {
                if error.reason == .notKnown {
                    unknown = error
                } else if unknown == nil {
                    throw error
                } else {
                    return false
                }
            }
        }
        if let unknown { throw unknown }
        return true
    }

    /// Evaluates a disjunction. If a term is not known yet, a later one may still be true. Otherwise the result is not known.
    private mutating func disjunction(_ list: OpList) throws(EvaluationError) -> Bool {
        var unknown: EvaluationError?
        for index in list.start..<(list.start + list.count) {
            do throws(EvaluationError) {
                if try test(program.references[Int(index)]) { return true }
            } catch {
                if error.reason == .notKnown { unknown = error } else { throw unknown ?? error }
            }
        }
        if let unknown { throw unknown }
        return false
    }

    private mutating func isEqual(_ left: OpRef, _ right: OpRef, _ ref: OpRef) throws(EvaluationError) -> Bool {
        let first = try value(left)
        let second = try value(right)
        if case .string(let text) = first { try spend(bytes: text.utf8.count, ref) }
        return Value.isEqual(first, second)
    }

    private mutating func compare(
        _ relation: Relation, _ left: OpRef, _ right: OpRef, _ ref: OpRef
    ) throws(EvaluationError) -> Bool {
        switch (try value(left), try value(right)) {
        case (.number(let first), .number(let second)):
            return switch relation {
            case .less: first < second
            case .lessOrEqual: first <= second
            case .greater: first > second
            case .greaterOrEqual: first >= second
            }
        case (.string(let first), .string(let second)):
            try spend(bytes: first.utf8.count, ref)
            let order = first.codeUnitOrder(against: second)
            return switch relation {
            case .less: order < 0
            case .lessOrEqual: order <= 0
            case .greater: order > 0
            case .greaterOrEqual: order >= 0
            }
        default: throw EvaluationError(reason: .notComparable, ref: ref)
        }
    }

    private mutating func hasChildren(_ snapshot: OpRef, _ lists: OpList) throws(EvaluationError) -> Bool {
        let base = try node(snapshot)
        var hasAll = true
        // Every item is evaluated, because an item that is no string is an error at any position.
        for index in lists.start..<(lists.start + lists.count) {
            guard case .list(let parts) = program[program.references[Int(index)]] else { continue }
            if try node(below: base, parts).isNull { hasAll = false }
        }
        return hasAll
    }

    // MARK: Values

    mutating func value(_ ref: OpRef) throws(EvaluationError) -> Value {
        let result = try untracedValue(ref)
        tracer.record(ref, result)
        return result
    }

    @inline(__always)
    private mutating func untracedValue(_ ref: OpRef) throws(EvaluationError) -> Value {
        switch program[ref] {
        case .null: return .null
        case .number(let value): return .number(value)
        case .text(let index): return .string(program.texts[Int(index)])
        case .now: return .number(surroundings.now)
        case .capture(let depth): return .string(frames[Int(depth)].key)
        case .auth: return Value(surroundings.auth)
        case .value(let snapshot):
            try spend(1, ref)
            return Value(try node(snapshot))
        default: return try otherValue(ref)
        }
    }

    private mutating func otherValue(_ ref: OpRef) throws(EvaluationError) -> Value {
        try spend(1, ref)
        switch program[ref] {
        case .member(let receiver, let key):
            guard case .object(let node) = try value(receiver) else { return .null }
            return Value(node.child(program.keys[Int(key)]))
        case .element(let receiver, let name): return try element(receiver, name)
        case .queryField(let field): return surroundings.query.value(of: field)
        case .priority(let snapshot): return Value(try node(snapshot).priority)
        case .length(let text): return try length(text, ref)
        case .negate(let operand):
            guard case .number(let number) = try value(operand) else {
                throw EvaluationError(reason: .notNumbers, ref: ref)
            }
            return .number(-number)
        case .arithmetic(let operation, let left, let right): return try arithmetic(operation, left, right, ref)
        case .sum(let list): return try sum(list, ref)
        case .replace(let text, let search, let replacement): return try replace(text, search, replacement, ref)
        case .lowercase(let text): return try lowercase(text, ref)
        case .uppercase(let text): return try uppercase(text, ref)
        case .choose(let condition, let then, let otherwise): return try value(try test(condition) ? then : otherwise)
        case .location, .child, .parent:
            // A snapshot as a branch of a conditional is an object that equals no value.
            _ = try node(ref)
            return .object(.null)
        default: return .boolean(try test(ref))
        }
    }

    private mutating func element(_ receiver: OpRef, _ name: OpRef) throws(EvaluationError) -> Value {
        let target = try value(receiver)
        let index = try value(name)
        guard case .object(let node) = target else { return .null }
        switch index {
        case .string(let text):
            try spend(bytes: text.utf8.count, name)
            return Value(node.child(Key(text)))
        case .number(let number): return Value(node.child(Key(NumberText.string(number))))
        case .boolean(let flag): return Value(node.child(Key(flag ? "true" : "false")))
        case .null, .object: return .null
        }
    }

    private mutating func arithmetic(
        _ operation: Arithmetic, _ left: OpRef, _ right: OpRef, _ ref: OpRef
    ) throws(EvaluationError) -> Value {
        guard case (.number(let first), .number(let second)) = (try value(left), try value(right)) else {
            throw EvaluationError(reason: .notNumbers, ref: ref)
        }
        return switch operation {
        case .subtract: .number(first - second)
        case .multiply: .number(first * second)
        case .divide: .number(second == 0 ? .nan : first / second)
        case .remainder: .number(first.truncatingRemainder(dividingBy: second))
        }
    }
}
