import Foundation

/// A value of an expression at run time.
enum SlowValue {
    case plain(Plain)
    case snapshot(Plain, [String])
}

/// The error of an expression that has no value.
struct SlowFailure: Error {}

/// A second implementation of the run-time semantics: plain, slow, and taken directly from the reference's tables.
struct SlowEvaluator {
    let data: Plain
    let newData: Plain
    let path: [String]
    let captures: [String: String]
    let auth: Plain
    let now: Double
    let query: [String: Plain]

    func run(_ rule: SlowExpression) -> Bool {
        guard case .plain(.bool(let value))? = try? evaluate(rule) else { return false }
        return value
    }

    func evaluate(_ expression: SlowExpression) throws -> SlowValue {
        switch expression {
        case .null, .regex, .array: return .plain(.null)
        case .bool(let value): return .plain(.bool(value))
        case .number(let value): return .plain(.number(value))
        case .string(let text): return .plain(.string(text))
        case .name("data"): return .snapshot(data, path)
        case .name("newData"): return .snapshot(newData, path)
        case .name("root"): return .snapshot(data, [])
        case .name("auth"): return .plain(auth)
        case .name("now"): return .plain(.number(now))
        case .name("query"): return .plain(.object(query))
        case .name(let name): return .plain(.string(captures[name] ?? "?"))
        case .prefix("!", let operand): return .plain(.bool(try !bool(operand)))
        case .prefix(_, let operand): return .plain(.number(-(try number(operand))))
        case .binary(let sign, let left, let right): return .plain(try binary(sign, left, right))
        case .choose(let condition, let then, let otherwise):
            return try evaluate(try bool(condition) ? then : otherwise)
        case .member(let receiver, let name): return .plain(try member(receiver, name))
        case .index(let receiver, .string(let name)): return .plain(try member(receiver, name))
        case .index(let receiver, let index):
            let target = try plain(receiver)
            let key: String
            switch try plain(index) {
            case .string(let text): key = text
            case .number(let value): key = Self.text(value)
            case .bool(let value): key = "\(value)"
            case .null, .object: return .plain(.null)
            }
            guard case .object(let members) = target else { return .plain(.null) }
            return .plain(members[key] ?? .null)
        case .call(let receiver, let name, let arguments): return try call(receiver, name, arguments)
        }
    }

    private func plain(_ expression: SlowExpression) throws -> Plain {
        switch try evaluate(expression) {
        case .plain(let value): return value
        // A snapshot used as a value is an object that equals nothing.
        case .snapshot: return .object([:])
        }
    }

    private func bool(_ expression: SlowExpression) throws -> Bool {
        guard case .bool(let value) = try plain(expression) else { throw SlowFailure() }
        return value
    }

    private func number(_ expression: SlowExpression) throws -> Double {
        guard case .number(let value) = try plain(expression) else { throw SlowFailure() }
        return value
    }

    private func string(_ expression: SlowExpression) throws -> String {
        guard case .string(let text) = try plain(expression) else { throw SlowFailure() }
        return text
    }

    static func text(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        return value == value.rounded() ? String(format: "%.0f", value == 0 ? 0 : value) : "\(value)"
    }

    private func binary(_ sign: String, _ left: SlowExpression, _ right: SlowExpression) throws -> Plain {
        switch sign {
        case "&&": return .bool(try bool(left) ? try bool(right) : false)
        case "||": return .bool(try bool(left) ? true : try bool(right))
        default: break
        }
        let first = try plain(left)
        let second = try plain(right)
        switch (sign, first, second) {
        case ("==", _, _), ("===", _, _): return .bool(Self.isEqual(first, second))
        case ("!=", _, _), ("!==", _, _): return .bool(!Self.isEqual(first, second))
        case ("<", .number(let a), .number(let b)): return .bool(a < b)
        case ("<=", .number(let a), .number(let b)): return .bool(a <= b)
        case (">", .number(let a), .number(let b)): return .bool(a > b)
        case (">=", .number(let a), .number(let b)): return .bool(a >= b)
        case ("<", .string(let a), .string(let b)): return .bool(Array(a.utf16).lexicographicallyPrecedes(b.utf16))
        case (">", .string(let a), .string(let b)): return .bool(Array(b.utf16).lexicographicallyPrecedes(a.utf16))
        case ("<=", .string(let a), .string(let b)): return .bool(!Array(b.utf16).lexicographicallyPrecedes(a.utf16))
        case (">=", .string(let a), .string(let b)): return .bool(!Array(a.utf16).lexicographicallyPrecedes(b.utf16))
        case ("+", .number(let a), .number(let b)): return .number(a + b)
        case ("+", .string(let a), .string(let b)): return .string(a + b)
        case ("+", .string(let a), .number(let b)): return .string(a + Self.text(b))
        case ("+", .number(let a), .string(let b)): return .string(Self.text(a) + b)
        case ("-", .number(let a), .number(let b)): return .number(a - b)
        case ("*", .number(let a), .number(let b)): return .number(a * b)
        case ("/", .number(let a), .number(let b)): return .number(b == 0 ? .nan : a / b)
        case ("%", .number(let a), .number(let b)): return .number(fmod(a, b))
        default: throw SlowFailure()
        }
    }

    static func isEqual(_ first: Plain, _ second: Plain) -> Bool {
        if case .object = first { return false }
        if case (.string(let a), .string(let b)) = (first, second) { return Array(a.utf8) == Array(b.utf8) }
        return first == second
    }

    private func member(_ receiver: SlowExpression, _ name: String) throws -> Plain {
        if name == "length", !isAuth(receiver) {
            return .number(Double(try string(receiver).utf16.count))
        }
        guard case .object(let members) = try plain(receiver) else { return .null }
        return members[name] ?? (isQueryFlag(name) ? .bool(false) : .null)
    }

    private func isQueryFlag(_ name: String) -> Bool {
        ["orderByKey", "orderByValue", "orderByPriority"].contains(name)
    }

    /// Whether `length` is a plain member, as in auth values; in all other values it is a count.
    private func isAuth(_ expression: SlowExpression) -> Bool {
        switch expression {
        case .name(let name): name == "auth"
        case .member(let receiver, _), .index(let receiver, _): isAuth(receiver)
        case .choose(_, let then, let otherwise): isAuth(then) && isAuth(otherwise)
        default: false
        }
    }

    private func call(_ receiver: SlowExpression, _ name: String, _ arguments: [SlowExpression]) throws -> SlowValue {
        if case .snapshot(let tree, let path) = try evaluate(receiver) {
            return try call(tree, path, name, arguments)
        }
        let text = try string(receiver)
        if name == "matches" {
            guard case .regex(let regex) = arguments[0] else { throw SlowFailure() }
            return .plain(.bool(regex.matches(text)))
        }
        let strings = try arguments.map(string)
        switch name {
        case "contains": return .plain(.bool(strings[0].isEmpty || Self.range(of: strings[0], in: text) != nil))
        case "beginsWith": return .plain(.bool(Array(text.utf8).starts(with: strings[0].utf8)))
        case "endsWith":
            return .plain(.bool(Array(text.utf8).reversed().starts(with: Array(strings[0].utf8).reversed())))
        case "replace": return .plain(.string(Self.replace(text, strings[0], strings[1])))
        case "toLowerCase": return .plain(.string(text.lowercased()))
        default: return .plain(.string(text.uppercased()))
        }
    }

    private static func range(of part: String, in text: String) -> Range<String.Index>? {
        text.range(of: part, options: .literal)
    }

    private static func replace(_ text: String, _ part: String, _ other: String) -> String {
        if !part.isEmpty { return text.replacingOccurrences(of: part, with: other, options: .literal) }
        return text.unicodeScalars.map { other + String($0) }.joined() + other
    }

    private func call(
        _ tree: Plain, _ path: [String], _ name: String, _ arguments: [SlowExpression]
    ) throws -> SlowValue {
        func keys(_ text: String) -> [String] { text.split(separator: "/").map(String.init) }
        let node = tree[path]
        switch name {
        case "val":
            if case .object = node { return .plain(.object([:])) }
            return .plain(node)
        case "getPriority": return .plain(.null)
        case "exists": return .plain(.bool(node != .null))
        case "child": return .snapshot(tree, path + keys(try string(arguments[0])))
        case "parent":
            guard !path.isEmpty else { throw SlowFailure() }
            return .snapshot(tree, Array(path.dropLast()))
        case "hasChild": return .plain(.bool(tree[path + keys(try string(arguments[0]))] != .null))
        case "hasChildren":
            guard let first = arguments.first, case .array(let items) = first else {
                if case .object = node { return .plain(.bool(true)) }
                return .plain(.bool(false))
            }
            let names = try items.map(string)
            return .plain(.bool(names.allSatisfy { tree[path + keys($0)] != .null }))
        case "isString":
            if case .string = node { return .plain(.bool(true)) }
            return .plain(.bool(false))
        case "isNumber":
            if case .number = node { return .plain(.bool(true)) }
            return .plain(.bool(false))
        default:
            if case .bool = node { return .plain(.bool(true)) }
            return .plain(.bool(false))
        }
    }
}
