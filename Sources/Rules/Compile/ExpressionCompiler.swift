internal import Tree

/// Checks one expression and appends its operations to the program (reference: security-rules 4). Errors contain offsets into
/// the expression's text. The first error ends the compilation.
struct ExpressionCompiler {
    struct Operand {
        let type: StaticType
        /// For a method, its receiver.
        let ref: OpRef
    }

    let kind: RuleKind
    /// The captures in scope, with their depth in the walk.
    let captures: [(name: String, depth: Int)]
    var program: Program
    private(set) var warnings: [TextError] = []

    init(kind: RuleKind, captures: [(name: String, depth: Int)], program: consuming Program) {
        self.kind = kind
        self.captures = captures
        self.program = program
    }

    mutating func rule(_ syntax: Syntax) throws(TextError) -> OpRef {
        let operand = try compile(syntax)
        guard operand.type == .boolean else { throw error("Expression must evaluate to a boolean.", syntax) }
        return operand.ref
    }

    func error(_ message: String, _ syntax: Syntax) -> TextError {
        TextError(offset: syntax.span.lowerBound, message: message)
    }

    mutating func emit(_ operation: Op, _ type: StaticType, _ syntax: Syntax) -> Operand {
        let span = Int32(truncatingIfNeeded: syntax.span.lowerBound)..<Int32(truncatingIfNeeded: syntax.span.upperBound)
        return Operand(type: type, ref: program.append(operation, at: span))
    }

    mutating func warn(_ message: String, _ syntax: Syntax) { warnings.append(error(message, syntax)) }

    mutating func compile(_ syntax: Syntax) throws(TextError) -> Operand {
        switch syntax.kind {
        case .null: return emit(.null, .null, syntax)
        case .boolean(let value): return emit(.boolean(value), .boolean, syntax)
        case .number(let value): return emit(.number(value), .number, syntax)
        case .string(let text): return emit(.text(program.append(text)), .string, syntax)
        case .regex: return emit(.null, .regex, syntax)
        case .array: throw error("Unexpected array literal.", syntax)
        case .identifier(let name): return try variable(name, syntax)
        case .not(let inner):
            let operand = try compile(inner)
            guard operand.type == .boolean else { throw error("! only operates on booleans.", syntax) }
            return emit(.not(operand.ref), .boolean, syntax)
        case .negate(let inner):
            let operand = try compile(inner)
            guard operand.type.isNumeric else { throw error("- only operates on numbers.", syntax) }
            return emit(.negate(operand.ref), .number, syntax)
        case .chain(.and, let operands): return try connective("&&", operands, syntax)
        case .chain(.or, let operands): return try connective("||", operands, syntax)
        case .chain(.add, let operands):
            let terms = try self.terms(operands, syntax)
            let type = terms.dropFirst().reduce(terms[0].type) { StaticType.sum($0, $1.type) }
            return emit(.sum(program.append(terms.map(\.ref))), type, syntax)
        case .binary(let binary, let left, let right): return try self.binary(binary, left, right, syntax)
        case .conditional(let condition, let then, let otherwise):
            return try conditional(condition, then, otherwise, syntax)
        case .member(let receiver, let name, let offset):
            return try member(try compile(receiver), name, at: offset, syntax)
        case .element(let receiver, let index): return try element(receiver, index, syntax)
        case .call(let callee, let arguments):
            let target = try compile(callee)
            guard case .method(let method) = target.type else {
                throw error("Type error: Function call on target that is not a function.", syntax)
            }
            return try call(method, on: target.ref, arguments, syntax)
        }
    }

    // MARK: Names

    private mutating func variable(_ name: String, _ syntax: Syntax) throws(TextError) -> Operand {
        if let capture = captures.first(where: { $0.name.hasSameBytes(as: name) }) {
            return emit(.capture(Int32(capture.depth)), .string, syntax)
        }
        switch name {
        case "auth": return emit(.auth, .auth, syntax)
        case "now": return emit(.now, .number, syntax)
        case "root": return emit(.location(.root, levelsUp: 0), .snapshot, syntax)
        case "data": return emit(.location(.data, levelsUp: 0), .snapshot, syntax)
        case "query": return emit(.null, .query, syntax)
        case "newData":
            guard kind != .read else { throw error("newData is invalid in .read expressions.", syntax) }
            return emit(.location(.newData, levelsUp: 0), .snapshot, syntax)
        default: throw error("Unknown variable '\(name)'.", syntax)
        }
    }

    private mutating func member(
        _ receiver: Operand, _ name: String, at offset: Int, _ syntax: Syntax
    ) throws(TextError) -> Operand {
        let method = Method(rawValue: name)
        switch receiver.type {
        case .snapshot:
            if let method, !method.isOfStrings { return Operand(type: .method(method), ref: receiver.ref) }
        case .string, .value, .queryValue:
            if let method, method.isOfStrings { return Operand(type: .method(method), ref: receiver.ref) }
            if name == "length" { return emit(.length(receiver.ref), .number, syntax) }
        case .auth:
            if let method, method.isOfStrings { return Operand(type: .method(method), ref: receiver.ref) }
            return emit(.member(receiver.ref, program.append(Key(name))), .auth, syntax)
        case .query:
            if let (operation, type) = Self.queryField(name) { return emit(operation, type, syntax) }
        default: throw TextError(offset: offset, message: "Invalid property access: target is not an object.")
        }
        throw TextError(offset: offset, message: "No such method/property '\(name)'.")
    }

    private static func queryField(_ name: String) -> (Op, StaticType)? {
        switch name {
        case "orderByKey": (.orderFlag(.key), .boolean)
        case "orderByValue": (.orderFlag(.value), .boolean)
        case "orderByPriority": (.orderFlag(.priority), .boolean)
        case "orderByChild": (.queryField(.orderByChild), .ordering)
        case "startAt": (.queryField(.startAt), .queryValue)
        case "endAt": (.queryField(.endAt), .queryValue)
        case "equalTo": (.queryField(.equalTo), .queryValue)
        case "limitToFirst": (.queryField(.limitToFirst), .queryValue)
        case "limitToLast": (.queryField(.limitToLast), .queryValue)
        default: nil
        }
    }

    private mutating func element(_ receiver: Syntax, _ index: Syntax, _ syntax: Syntax) throws(TextError) -> Operand {
        let target = try compile(receiver)
        if case .string(let name) = index.kind {
            return try member(target, name, at: index.span.lowerBound, syntax)
        }
        let key = try compile(index)
        guard target.type == .auth, key.type.isComparable else { throw error("Invalid property access.", index) }
        return emit(.element(target.ref, key.ref), .auth, syntax)
    }
}
