/// Generates expressions, documents and data.
struct RandomRules {
    var random: SeededGenerator
    /// The percentage of parts of expressions that have any type instead of the expected one.
    var disobedience = 0

    static let keys = ["a", "b", "1", "3", "12", "é"]
    static let strings = ["", "a", "b", "ab", "1", "a/b", "/c/", "A", "é", "😀b", "x y", "aab"]

    // MARK: Data

    mutating func data(_ depth: Int = 3) -> Plain {
        if depth > 0, random.chance(60) {
            var members: [String: Plain] = [:]
            for key in Self.keys where random.chance(50) { members[key] = data(depth - 1) }
            return Plain.object(members).pruned
        }
        return leaf()
    }

    mutating func leaf() -> Plain {
        switch random.below(6) {
        case 0: .null
        case 1: .bool(random.chance(50))
        case 2, 3: .number(number())
        default: .string(random.pick(Self.strings))
        }
    }

    private mutating func number() -> Double { random.pick([0, 1, 2, 3, 7, 10, 1.5, 0.25, 100]) }

    mutating func path() -> [String] {
        (0..<random.below(4)).map { _ in random.pick(Self.keys) }
    }

    mutating func auth() -> Plain {
        if random.chance(30) { return .null }
        return .object(["uid": .string(random.pick(Self.strings)), "token": .object(["a": leaf(), "b": data(1)])])
            .pruned
    }

    // MARK: Documents

    mutating func document(_ depth: Int = 3, captures: [String] = []) -> SlowNode {
        var node = SlowNode()
        if random.chance(50) { node.read = rule(isRead: true, captures) }
        if random.chance(50) { node.write = rule(isRead: false, captures) }
        if random.chance(20) { node.validate = rule(isRead: false, captures) }
        guard depth > 0 else { return node }
        for key in Self.keys where random.chance(30) {
            node.children[key] = document(depth - 1, captures: captures)
        }
        if random.chance(50) {
            let name = "$v\(captures.count)"
            node.wildcard[name] = document(depth - 1, captures: captures + [name])
        }
        return node
    }

    private mutating func rule(isRead: Bool, _ captures: [String]) -> SlowExpression {
        var expressions = Expressions(
            random: random, isRead: isRead, captures: captures, disobedience: disobedience)
        defer { random = expressions.random }
        // Constant rules keep decisions from being all denials.
        return random.chance(30) ? .bool(random.chance(80)) : expressions.boolean(4)
    }

    /// Returns one expression for a rule of the root.
    mutating func expression(isRead: Bool) -> SlowExpression {
        var expressions = Expressions(random: random, isRead: isRead, captures: [], disobedience: disobedience)
        defer { random = expressions.random }
        return expressions.boolean(5)
    }

    /// Generates expressions of a given type.
    struct Expressions {
        var random: SeededGenerator
        let isRead: Bool
        let captures: [String]
        let disobedience: Int

        mutating func boolean(_ depth: Int) -> SlowExpression {
            if random.chance(disobedience) { return anything(depth) }
            if depth <= 0 { return .bool(random.chance(60)) }
            let next = depth - 1
            switch random.below(16) {
            case 0: return .prefix("!", boolean(next))
            case 1, 2: return .binary("&&", boolean(next), boolean(next))
            case 3, 4: return .binary("||", boolean(next), boolean(next))
            case 5, 6: return .binary(random.pick(["==", "!=", "===", "!=="]), value(next), value(next))
            case 7: return .binary(random.pick(["<", "<=", ">", ">="]), ordered(next), ordered(next))
            case 8: return .choose(boolean(next), boolean(next), boolean(next))
            case 9: return .call(snapshot(next), "hasChild", [path(next)])
            case 10: return .call(snapshot(next), "hasChildren", random.chance(40) ? [] : [.array(strings(next))])
            case 11: return .call(text(next), random.pick(["contains", "beginsWith", "endsWith"]), [string(next)])
            case 12: return .call(text(next), "matches", [.regex(random.pick(SlowRegex.all))])
            case 13: return .member(.name("query"), random.pick(["orderByKey", "orderByValue", "orderByPriority"]))
            case 14: return .index(.name("query"), .string("orderByKey"))
            default:
                return .call(snapshot(next), random.pick(["exists", "isString", "isNumber", "isBoolean"]), [])
            }
        }

        private mutating func strings(_ depth: Int) -> [SlowExpression] {
            (0..<random.below(3)).map { _ in path(depth) }
        }

        mutating func value(_ depth: Int) -> SlowExpression {
            if random.chance(disobedience) { return anything(depth) }
            switch random.below(8) {
            case 0: return .null
            case 1: return boolean(depth - 1)
            case 2: return number(depth)
            case 3: return string(depth)
            case 4: return auth(depth)
            case 5: return queryField()
            case 6 where depth > 0: return .choose(boolean(depth - 1), value(depth - 1), value(depth - 1))
            default: return .call(snapshot(depth), random.chance(90) ? "val" : "getPriority", [])
            }
        }

        private mutating func queryField() -> SlowExpression {
            random.chance(15) ? .member(.name("query"), "orderByChild") : queryValue()
        }

        private mutating func queryValue() -> SlowExpression {
            .member(.name("query"), random.pick(["startAt", "endAt", "equalTo", "limitToFirst", "limitToLast"]))
        }

        /// Returns an expression whose value has the methods of strings.
        private mutating func text(_ depth: Int) -> SlowExpression {
            random.chance(20) ? queryValue() : string(depth)
        }

        private mutating func ordered(_ depth: Int) -> SlowExpression {
            switch random.below(5) {
            case 0, 1: number(depth)
            case 2, 3: string(depth)
            default: auth(depth)
            }
        }

        /// Returns a string, or a sum like those that build paths.
        private mutating func path(_ depth: Int) -> SlowExpression {
            if random.chance(40) { return string(depth) }
            var sum = random.chance(50) ? .string(random.pick(["", "a/"])) : pathTerm(depth)
            for _ in 0..<(1 + random.below(3)) { sum = .binary("+", sum, pathTerm(depth)) }
            // Some of these are sums of numbers, which are not paths.
            return random.chance(50) ? .binary("+", sum, .string("")) : sum
        }

        private mutating func pathTerm(_ depth: Int) -> SlowExpression {
            switch random.below(6) {
            case 0, 1: .number(random.pick([1, 2]))
            case 2: .string(random.pick(["a/", "/", "", "a", "1/3"]))
            case 3: captures.randomElement(using: &random).map { .name($0) } ?? .string("b")
            case 4: .call(.name("data"), "val", [])
            default: string(depth - 1)
            }
        }

        mutating func number(_ depth: Int) -> SlowExpression {
            if random.chance(disobedience) { return anything(depth) }
            if depth <= 0 { return random.chance(20) ? .name("now") : .number(random.pick([0, 1, 2, 3, 10, 1.5])) }
            switch random.below(6) {
            case 0: return .prefix("-", number(depth - 1))
            case 1: return .binary(random.pick(["-", "*", "/", "%"]), number(depth - 1), number(depth - 1))
            case 2: return .binary("+", number(depth - 1), number(depth - 1))
            case 3: return .member(text(depth - 1), "length")
            case 4: return .call(snapshot(depth - 1), "val", [])
            default: return number(0)
            }
        }

        mutating func string(_ depth: Int) -> SlowExpression {
            if random.chance(disobedience) { return anything(depth) }
            if depth <= 0 || random.chance(20) {
                if let capture = captures.randomElement(using: &random), random.chance(50) { return .name(capture) }
                return .string(random.pick(RandomRules.strings))
            }
            switch random.below(8) {
            case 0, 1: return .binary("+", ordered(depth - 1), string(depth - 1))
            case 2: return .binary("+", string(depth - 1), ordered(depth - 1))
            case 3: return .call(string(depth - 1), "replace", [string(depth - 1), string(depth - 1)])
            case 4: return .call(text(depth - 1), random.pick(["toLowerCase", "toUpperCase"]), [])
            case 5: return .member(.name("auth"), "uid")
            default: return .call(snapshot(depth - 1), "val", [])
            }
        }

        private mutating func auth(_ depth: Int) -> SlowExpression {
            switch random.below(5) {
            case 0: .name("auth")
            case 1: .member(.name("auth"), "uid")
            case 2: .member(.member(.name("auth"), "token"), random.pick(["a", "b", "length"]))
            case 3: .index(.member(.name("auth"), "token"), value(depth - 1))
            default: .index(.name("auth"), .string("uid"))
            }
        }

        mutating func snapshot(_ depth: Int) -> SlowExpression {
            if random.chance(disobedience) { return anything(depth) }
            let names = isRead ? ["data", "data", "root"] : ["data", "newData", "newData", "root"]
            if depth <= 0 || random.chance(30) { return .name(random.pick(names)) }
            switch random.below(6) {
            case 0, 1: return .call(snapshot(depth - 1), "parent", [])
            case 2: return .choose(boolean(depth - 1), snapshot(depth - 1), snapshot(depth - 1))
            default: return .call(snapshot(depth - 1), "child", [path(depth - 1)])
            }
        }

        private mutating func anything(_ depth: Int) -> SlowExpression {
            let next = min(depth, 2) - 1
            switch random.below(10) {
            case 0: return .null
            case 1: return .name(random.pick(["auth", "query", "nothing", "$v0", "$v1", "newData", "now"]))
            case 2: return .array([.string("a")])
            case 3: return .regex(SlowRegex.all[0])
            case 4: return .member(value(next), random.pick(["val", "length", "exists", "contains", "uid"]))
            case 5: return .index(value(next), value(next))
            case 6: return .call(value(next), random.pick(["val", "child", "replace", "matches"]), [value(next)])
            case 7: return snapshot(next)
            case 8: return number(next)
            default: return string(next)
            }
        }
    }
}
