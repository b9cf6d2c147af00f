/// Compiles method calls: checks the number and the types of arguments.
extension ExpressionCompiler {
    mutating func call(
        _ method: Method, on receiver: OpRef, _ arguments: [Syntax], _ syntax: Syntax
    ) throws(TextError) -> Operand {
        switch method {
        case .val: return try plain(.value(receiver), .value, method, arguments, syntax)
        case .getPriority: return try plain(.priority(receiver), .value, method, arguments, syntax)
        case .exists: return try plain(.exists(receiver), .boolean, method, arguments, syntax)
        case .isString: return try plain(.isString(receiver), .boolean, method, arguments, syntax)
        case .isNumber: return try plain(.isNumber(receiver), .boolean, method, arguments, syntax)
        case .isBoolean: return try plain(.isBoolean(receiver), .boolean, method, arguments, syntax)
        case .toLowerCase: return try plain(.lowercase(receiver), .string, method, arguments, syntax)
        case .toUpperCase: return try plain(.uppercase(receiver), .string, method, arguments, syntax)
        case .parent: return try plain(above(receiver), .snapshot, method, arguments, syntax)
        case .child, .hasChild:
            let parts = try pathParts(try single(method, arguments, syntax), method)
            let child = emit(.child(receiver, program.append(parts)), .snapshot, syntax)
            return method == .child ? child : emit(.exists(child.ref), .boolean, syntax)
        case .hasChildren: return try hasChildren(receiver, arguments, syntax)
        case .contains, .beginsWith, .endsWith:
            let argument = try string(
                try single(method, arguments, syntax), "\(method.rawValue)() expects a string argument.")
            let operation: Op =
                switch method {
                case .contains: .contains(receiver, argument)
                case .beginsWith: .beginsWith(receiver, argument)
                default: .endsWith(receiver, argument)
                }
            return emit(operation, .boolean, syntax)
        case .replace:
            guard arguments.count == 2 else { throw error("replace() expects two arguments.", syntax) }
            let search = try string(arguments[0], "Argument 1 of replace() must be a string.")
            let replacement = try string(arguments[1], "Argument 2 of replace() must be a string.")
            return emit(.replace(receiver, search, replacement), .string, syntax)
        case .matches: return try matches(receiver, arguments, syntax)
        }
    }

    private mutating func plain(
        _ operation: Op, _ type: StaticType, _ method: Method, _ arguments: [Syntax], _ syntax: Syntax
    ) throws(TextError) -> Operand {
        guard arguments.isEmpty else { throw error("\(method.rawValue)() expects no arguments.", syntax) }
        return emit(operation, type, syntax)
    }

    private func single(_ method: Method, _ arguments: [Syntax], _ syntax: Syntax) throws(TextError) -> Syntax {
        guard arguments.count == 1 else { throw error("\(method.rawValue)() expects 1 argument.", syntax) }
        return arguments[0]
    }

    mutating func string(_ argument: Syntax, _ message: String) throws(TextError) -> OpRef {
        let operand = try compile(argument)
        guard operand.type.isStringLike else { throw error(message, argument) }
        return operand.ref
    }

    /// Returns the operation of `parent()`. A chain such as `data.parent().parent()` becomes one operation.
    private func above(_ receiver: OpRef) -> Op {
        if case .location(let version, let levels) = program[receiver] {
            return .location(version, levelsUp: levels + 1)
        }
        return .parent(receiver)
    }

    private mutating func hasChildren(
        _ receiver: OpRef, _ arguments: [Syntax], _ syntax: Syntax
    ) throws(TextError) -> Operand {
        if arguments.isEmpty { return emit(.hasAnyChild(receiver), .boolean, syntax) }
        guard arguments.count == 1 else {
            throw error("hasChildren() expects only a single argument (containing an array of child names).", syntax)
        }
        guard case .array(let items) = arguments[0].kind else {
            // A mistake within the argument is reported first.
            _ = try compile(arguments[0])
            throw error("hasChildren() expects an array of child names.", arguments[0])
        }
        var lists: [OpRef] = []
        for item in items {
            let parts = try pathParts(item, "hasChildren() expects an array of strings.")
            lists.append(emit(.list(program.append(parts)), .string, item).ref)
        }
        return emit(.hasChildren(receiver, program.append(lists)), .boolean, syntax)
    }

    private mutating func matches(
        _ receiver: OpRef, _ arguments: [Syntax], _ syntax: Syntax
    ) throws(TextError) -> Operand {
        guard arguments.count == 1 else {
            throw error("matches() expects 1 regular expression literal argument.", syntax)
        }
        guard case .regex(let literal) = arguments[0].kind else {
            _ = try compile(arguments[0])
            throw error("matches() expects a regular expression literal argument.", arguments[0])
        }
        let regex: Regex
        do { regex = try Regex(literal, budget: &program.regexBudget) } catch {
            throw self.error(error.message, arguments[0])
        }
        for warning in regex.warnings { warn(warning, arguments[0]) }
        return emit(.matches(receiver, program.append(regex)), .boolean, syntax)
    }
}
