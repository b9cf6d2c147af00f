import Testing

@testable import Rules

/// Checks how expressions are parsed: precedence, chains, spans and errors.
@Suite struct ExpressionParserTests {
    /// Returns the syntax tree with a pair of brackets for each operation.
    private func shape(_ syntax: Syntax) -> String {
        switch syntax.kind {
        case .null: "null"
        case .boolean(let value): "\(value)"
        case .number(let value): value == value.rounded() ? "\(Int(value))" : "\(value)"
        case .string(let text): "'\(text)'"
        case .regex(let literal): "/\(literal.pattern)/\(literal.ignoresCase ? "i" : "")"
        case .identifier(let name): name
        case .array(let items): "[" + items.map(shape).joined(separator: ", ") + "]"
        case .not(let operand): "(! \(shape(operand)))"
        case .negate(let operand): "(- \(shape(operand)))"
        case .chain(let operation, let operands):
            "(" + operands.map(shape).joined(separator: operation == .and ? " && " : operation == .or ? " || " : " + ")
                + ")"
        case .binary(let operation, let left, let right): "(\(shape(left)) \(operation.rawValue) \(shape(right)))"
        case .conditional(let condition, let then, let otherwise):
            "(\(shape(condition)) ? \(shape(then)) : \(shape(otherwise)))"
        case .member(let receiver, let name, _): "\(shape(receiver)).\(name)"
        case .element(let receiver, let index): "\(shape(receiver))[\(shape(index))]"
        case .call(let callee, let arguments):
            "\(shape(callee))(" + arguments.map(shape).joined(separator: ", ") + ")"
        }
    }

    private func parse(_ text: String) throws -> Syntax { try ExpressionParser.parse(Array(text.utf8)) }

    @Test(arguments: [
        ("a", "a"), ("(a)", "a"), ("((a))", "a"), ("true", "true"), ("null", "null"), ("'a'", "'a'"), ("1.5", "1.5"),
        // Precedence, from the lowest to the highest.
        ("a || b && c", "(a || (b && c))"), ("a && b || c", "((a && b) || c)"), ("a && (b || c)", "(a && (b || c))"),
        ("a && b == c", "(a && (b == c))"), ("a == b < c", "(a == (b < c))"), ("a < b + c", "(a < (b + c))"),
        ("a + b * c", "(a + (b * c))"), ("a * b + c", "((a * b) + c)"), ("(a + b) * c", "((a + b) * c)"),
        ("a * -b", "(a * (- b))"), ("!a == b", "((! a) == b)"), ("!a.b", "(! a.b)"), ("-a.b()", "(- a.b())"),
        ("!!a", "(! (! a))"), ("!-a", "(! (- a))"), ("a - -b", "(a - (- b))"),
        // Chains are flat; other operators associate to the left.
        ("a && b && c", "(a && b && c)"), ("a || b || c", "(a || b || c)"), ("a + b + c", "(a + b + c)"),
        ("a - b - c", "((a - b) - c)"), ("a / b / c", "((a / b) / c)"), ("a * b / c % d", "(((a * b) / c) % d)"),
        ("a + b - c + d", "(((a + b) - c) + d)"), ("a - b + c", "((a - b) + c)"), ("a == b != c", "((a == b) != c)"),
        ("a < b >= c", "((a < b) >= c)"), ("a && b || c && d", "((a && b) || (c && d))"),
        // Both spellings of equality are equivalent.
        ("a === b", "(a == b)"), ("a !== b", "(a != b)"),
        // Conditionals have the lowest precedence, and their branches nest to the right.
        ("a ? b : c", "(a ? b : c)"), ("a || b ? c : d", "((a || b) ? c : d)"),
        ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
        ("a ? b ? c : d : e", "(a ? (b ? c : d) : e)"), ("(a ? b : c) ? d : e", "((a ? b : c) ? d : e)"),
        ("a ? b && c : d + e", "(a ? (b && c) : (d + e))"),
        // Postfix operations.
        ("a.b.c", "a.b.c"), ("a['b']", "a['b']"), ("a[b + 1]", "a[(b + 1)]"), ("a()", "a()"), ("a(b, c)", "a(b, c)"),
        ("a.b('c').d(1, 2)[3]()", "a.b('c').d(1, 2)[3]()"), ("(a + b).c", "(a + b).c"), ("'a'.length", "'a'.length"),
        ("a.b([c, 'd'])", "a.b([c, 'd'])"), ("[]", "[]"), ("[[1], []]", "[[1], []]"), ("a.true", "a.true"),
        ("a.b(/c/i)", "a.b(/c/i)"), ("a / b", "(a / b)"), ("a.b(/[/]/) / 2", "(a.b(/[/]/) / 2)"),
        ("$a + $b", "($a + $b)"),
        (" a // b\n && /* c */ d ", "(a && d)"),
    ]) func trees(text: String, expected: String) throws {
        #expect(shape(try parse(text)) == expected)
    }

    /// Checks the bytes of an expression's parts; brackets around a part belong to it.
    @Test func spans() throws {
        let text = "  a && (b.c('é') ? !d : [1]) "
        let bytes = Array(text.utf8)
        func part(_ syntax: Syntax) -> String { String(decoding: bytes[syntax.span], as: UTF8.self) }
        let root = try parse(text)
        #expect(part(root) == "a && (b.c('é') ? !d : [1])")
        guard case .chain(.and, let operands) = root.kind,
            case .conditional(let condition, let then, let otherwise) = operands[1].kind,
            case .call(let callee, let arguments) = condition.kind, case .member(_, _, let nameOffset) = callee.kind
        else {
            Issue.record("another tree: \(shape(root))")
            return
        }
        #expect(operands.map(part) == ["a", "(b.c('é') ? !d : [1])"])
        #expect([condition, then, otherwise, callee].map(part) == ["b.c('é')", "!d", "[1]", "b.c"])
        #expect(arguments.map(part) == ["'é'"])
        #expect(String(decoding: bytes[nameOffset..<(nameOffset + 1)], as: UTF8.self) == "c")
    }

    @Test(arguments: [
        ("", 0, "The expression is empty."), ("  // nothing", 12, "The expression is empty."),
        ("a b", 2, "missing ; before statement"), ("a)", 1, "missing ; before statement"),
        ("a = 1", 2, "Rule expressions may not contain assignments."),
        ("a + = 1", 4, "Rule expressions may not contain assignments."),
        ("a.b = 1", 4, "Rule expressions may not contain assignments."),
        ("a +", 3, "syntax error"), ("&& a", 0, "syntax error"), ("a + * b", 4, "syntax error"),
        ("()", 1, "syntax error"),
        ("a ? : c", 4, "syntax error"), ("[,]", 1, "syntax error"), ("a(,)", 2, "syntax error"),
        ("a(b,)", 4, "syntax error"),
        ("[a,]", 3, "syntax error"), ("!", 1, "syntax error"), (".a", 0, "syntax error"), ("+a", 0, "syntax error"),
        ("a ? b", 5, "missing : in conditional expression"), ("a ? b c", 6, "missing : in conditional expression"),
        ("a.", 2, "missing name after . operator"), ("a.1", 1, "missing ; before statement"),
        ("a.'b'", 2, "missing name after . operator"), ("a.(b)", 2, "missing name after . operator"),
        ("a[1", 3, "missing ] in index expression"), ("a[1, 2]", 3, "missing ] in index expression"),
        ("a[]", 2, "syntax error"), ("(a", 2, "missing ) in parenthetical"),
        ("(a, b)", 2, "missing ) in parenthetical"),
        ("a(b", 3, "missing ) after argument list"), ("a(b c)", 4, "missing ) after argument list"),
        ("[a", 2, "missing ] after element list"), ("[a b]", 3, "missing ] after element list"),
        ("a.matches(/b", 10, "unterminated regular expression literal"), ("a /", 3, "syntax error"),
    ]) func mistakes(text: String, offset: Int, message: String) {
        do throws(TextError) {
            _ = try ExpressionParser.parse(Array(text.utf8))
            Issue.record("\(text) is accepted")
        } catch {
            #expect(error.offset == offset && error.message == message, "\(text): \(error)")
        }
    }

    @Test func nestingEndsAtTheLimit() throws {
        func nested(_ count: Int) -> String {
            String(repeating: "(", count: count) + "a" + String(repeating: ")", count: count)
        }
        #expect(throws: Never.self) { try parse(nested(ExpressionParser.maxNesting - 2)) }
        #expect(throws: TextError.self) { try parse(nested(ExpressionParser.maxNesting + 1)) }
        #expect(try parse("a" + String(repeating: " && a", count: 10_000)).depth == 2)
        #expect(try parse("a" + String(repeating: ".b", count: 100)).depth == 101)
    }
}
