/// A second implementation of the static checks, taken directly from the reference's tables; types are words. Nil means
/// that the upload is refused.
struct SlowTypes {
    let isRead: Bool
    let captures: [String]

    private static let primitives: Set = ["Boolean", "Number", "String", "Null", "Value"]
    private static let comparable: Set = [
        "Boolean", "Number", "String", "Null", "Value", "Auth", "QueryValue", "Ordering", "Mixed",
    ]
    private static let ordered: Set = ["Number", "String", "Value", "Auth", "QueryValue", "Ordering", "Mixed"]
    private static let numeric: Set = ["Number", "Value", "Auth", "QueryValue", "Ordering", "Mixed"]
    private static let stringLike: Set = ["String", "Value", "Auth", "Mixed"]
    private static let snapshotMethods: Set = [
        "val", "getPriority", "exists", "child", "parent", "hasChild", "hasChildren", "isString", "isNumber",
        "isBoolean",
    ]
    private static let stringMethods: Set = [
        "contains", "beginsWith", "endsWith", "replace", "toLowerCase", "toUpperCase", "matches",
    ]

    func accepts(_ rule: SlowExpression) -> Bool { type(rule) == "Boolean" }

    func type(_ expression: SlowExpression) -> String? {
        switch expression {
        case .null: return "Null"
        case .bool: return "Boolean"
        case .number: return "Number"
        case .string: return "String"
        case .regex: return "Regex"
        case .array: return nil
        case .name(let name): return self.name(name)
        case .prefix("!", let operand): return type(operand) == "Boolean" ? "Boolean" : nil
        case .prefix(_, let operand): return type(operand).map(Self.numeric.contains) == true ? "Number" : nil
        case .binary(let sign, let left, let right):
            guard let first = type(left), let second = type(right) else { return nil }
            return binary(sign, first, second)
        case .choose(let condition, let then, let otherwise):
            guard type(condition) == "Boolean", let first = type(then), let second = type(otherwise) else { return nil }
            let allowed = Self.comparable.union(["Snapshot"])
            guard allowed.contains(first), allowed.contains(second) else { return nil }
            if first == second { return first }
            return Self.primitives.contains(first) && Self.primitives.contains(second) ? "Value" : "Mixed"
        case .member(let receiver, let name): return type(receiver).flatMap { member($0, name) }
        case .index(let receiver, .string(let name)): return type(receiver).flatMap { member($0, name) }
        case .index(let receiver, let index):
            guard type(receiver) == "Auth", let index = type(index) else { return nil }
            return Self.comparable.contains(index) ? "Auth" : nil
        case .call(let receiver, let name, let arguments):
            guard let type = type(receiver), member(type, name) == "Method" else { return nil }
            return call(name, arguments)
        }
    }

    private func name(_ name: String) -> String? {
        switch name {
        case "data", "root": "Snapshot"
        case "newData": isRead ? nil : "Snapshot"
        case "auth": "Auth"
        case "now": "Number"
        case "query": "Query"
        default: captures.contains(name) ? "String" : nil
        }
    }

    private func binary(_ sign: String, _ first: String, _ second: String) -> String? {
        func both(_ types: Set<String>) -> Bool { types.contains(first) && types.contains(second) }
        switch sign {
        case "&&", "||": return both(["Boolean"]) ? "Boolean" : nil
        case "==", "!=", "===", "!==": return both(Self.comparable) ? "Boolean" : nil
        case "<", "<=", ">", ">=": return both(Self.ordered) ? "Boolean" : nil
        case "+":
            guard both(Self.ordered) else { return nil }
            if first == "String" || second == "String" { return "String" }
            return first == "Number" && second == "Number" ? "Number" : "Value"
        default: return both(Self.numeric) ? "Number" : nil
        }
    }

    private func member(_ type: String, _ name: String) -> String? {
        switch type {
        case "Snapshot": return Self.snapshotMethods.contains(name) ? "Method" : nil
        case "String", "Value", "QueryValue":
            if name == "length" { return "Number" }
            return Self.stringMethods.contains(name) ? "Method" : nil
        case "Auth": return Self.stringMethods.contains(name) ? "Method" : "Auth"
        case "Query":
            if ["orderByKey", "orderByValue", "orderByPriority"].contains(name) { return "Boolean" }
            if name == "orderByChild" { return "Ordering" }
            let fields = ["startAt", "endAt", "equalTo", "limitToFirst", "limitToLast"]
            return fields.contains(name) ? "QueryValue" : nil
        default: return nil
        }
    }

    private func call(_ name: String, _ arguments: [SlowExpression]) -> String? {
        func areStrings(_ items: [SlowExpression]) -> Bool {
            items.allSatisfy { type($0).map(Self.stringLike.contains) == true }
        }
        switch name {
        case "val", "getPriority": return arguments.isEmpty ? "Value" : nil
        case "exists", "isString", "isNumber", "isBoolean": return arguments.isEmpty ? "Boolean" : nil
        case "toLowerCase", "toUpperCase": return arguments.isEmpty ? "String" : nil
        case "parent": return arguments.isEmpty ? "Snapshot" : nil
        case "child": return arguments.count == 1 && areStrings(arguments) ? "Snapshot" : nil
        case "hasChild", "contains", "beginsWith", "endsWith":
            return arguments.count == 1 && areStrings(arguments) ? "Boolean" : nil
        case "replace": return arguments.count == 2 && areStrings(arguments) ? "String" : nil
        case "hasChildren":
            if arguments.isEmpty { return "Boolean" }
            guard arguments.count == 1, case .array(let items) = arguments[0] else { return nil }
            return areStrings(items) ? "Boolean" : nil
        case "matches":
            guard arguments.count == 1, case .regex = arguments[0] else { return nil }
            return "Boolean"
        default: return nil
        }
    }
}
