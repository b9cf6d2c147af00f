/// Parses one rule expression by precedence climbing (reference: security-rules 2). Offsets are bytes of the expression's text.
struct ExpressionParser {
    private var lexer: Lexer
    private var token = Token.end
    private var tokenStart = 0
    /// The end of the token before the current one.
    private var previousEnd = 0
    private var nesting = 0

    /// The maximum nesting of an expression. Chains of `&&`, `||` and `+` do not nest.
    static let maxNesting = 200

    static func parse(_ bytes: [UInt8]) throws(TextError) -> Syntax {
        var parser = ExpressionParser(lexer: Lexer(bytes))
        try parser.advance()
        if parser.token == .end { throw parser.error("The expression is empty.") }
        let expression = try parser.expression()
        guard parser.token == .end else { throw parser.unexpected("missing ; before statement") }
        return expression
    }

    private init(lexer: Lexer) { self.lexer = lexer }

    // MARK: Tokens

    private mutating func advance() throws(TextError) {
        previousEnd = lexer.index
        token = try lexer.next()
        tokenStart = lexer.start
    }

    private func error(_ message: String) -> TextError { TextError(offset: tokenStart, message: message) }

    /// Returns the error for the current token, as specific as possible.
    private func unexpected(_ message: String) -> TextError {
        error(token == .mark(.assign) ? "Rule expressions may not contain assignments." : message)
    }

    private mutating func expect(_ mark: Token.Mark, _ message: String) throws(TextError) {
        guard token == .mark(mark) else { throw unexpected(message) }
        try advance()
    }

    private mutating func enter() throws(TextError) {
        nesting += 1
        if nesting > Self.maxNesting { throw error("The expression is nested too deeply.") }
    }

    /// Checks the depth of a tree. The nesting limits this parser's recursion, but the tree may grow to the left without
    /// nesting.
    private func checkDepth(_ tree: Syntax) throws(TextError) {
        if nesting + tree.depth > Self.maxNesting { throw error("The expression is nested too deeply.") }
    }

    // MARK: Operators

    private mutating func expression() throws(TextError) -> Syntax {
        try enter()
        defer { nesting -= 1 }
        let start = tokenStart
        let condition = try operation(above: 0)
        guard token == .mark(.question) else { return condition }
        try advance()
        let then = try expression()
        try expect(.colon, "missing : in conditional expression")
        let otherwise = try expression()
        return Syntax(.conditional(condition, then: then, otherwise: otherwise), start..<previousEnd)
    }

    private enum Infix {
        case chain(ChainOperator)
        case binary(BinaryOperator)
    }

    private func infix(_ token: Token) -> (operation: Infix, precedence: Int)? {
        guard case .mark(let mark) = token else { return nil }
        return switch mark {
        case .or: (.chain(.or), 1)
        case .and: (.chain(.and), 2)
        case .equal, .identical: (.binary(.equal), 3)
        case .unequal, .notIdentical: (.binary(.unequal), 3)
        case .less: (.binary(.less), 4)
        case .lessOrEqual: (.binary(.lessOrEqual), 4)
        case .greater: (.binary(.greater), 4)
        case .greaterOrEqual: (.binary(.greaterOrEqual), 4)
        case .plus: (.chain(.add), 5)
        case .minus: (.binary(.subtract), 5)
        case .times: (.binary(.multiply), 6)
        case .slash: (.binary(.divide), 6)
        case .percent: (.binary(.remainder), 6)
        default: nil
        }
    }

    private mutating func operation(above minimum: Int) throws(TextError) -> Syntax {
        let start = tokenStart
        var left = try unary()
        while let (operation, precedence) = infix(token), precedence > minimum {
            switch operation {
            case .chain(let chain):
                let mark = token
                var operands = [left]
                while token == mark {
                    try advance()
                    operands.append(try self.operation(above: precedence))
                }
                left = Syntax(.chain(chain, operands), start..<previousEnd)
            case .binary(let binary):
                try advance()
                let right = try self.operation(above: precedence)
                left = Syntax(.binary(binary, left, right), start..<previousEnd)
            }
            try checkDepth(left)
        }
        return left
    }

    private mutating func unary() throws(TextError) -> Syntax {
        let start = tokenStart
        guard token == .mark(.not) || token == .mark(.minus) else { return try postfix() }
        let isNot = token == .mark(.not)
        try enter()
        defer { nesting -= 1 }
        try advance()
        let operand = try unary()
        return Syntax(isNot ? .not(operand) : .negate(operand), start..<previousEnd)
    }

    // MARK: Operands

    private mutating func postfix() throws(TextError) -> Syntax {
        let start = tokenStart
        var expression = try primary()
        while case .mark(let mark) = token {
            switch mark {
            case .dot:
                try advance()
                guard case .identifier(let name) = token else { throw unexpected("missing name after . operator") }
                let offset = tokenStart
                try advance()
                expression = Syntax(.member(expression, name: name, nameOffset: offset), start..<previousEnd)
            case .openBracket:
                try advance()
                let index = try self.expression()
                try expect(.closeBracket, "missing ] in index expression")
                expression = Syntax(.element(expression, index: index), start..<previousEnd)
            case .openParenthesis:
                try advance()
                let arguments = try list(until: .closeParenthesis, "missing ) after argument list")
                expression = Syntax(.call(expression, arguments: arguments), start..<previousEnd)
            default: return expression
            }
            try checkDepth(expression)
        }
        return expression
    }

    /// Parses expressions between commas, and the mark that ends them.
    private mutating func list(until end: Token.Mark, _ message: String) throws(TextError) -> [Syntax] {
        var items: [Syntax] = []
        if token != .mark(end) {
            items.append(try expression())
            while token == .mark(.comma) {
                try advance()
                items.append(try expression())
            }
        }
        try expect(end, message)
        return items
    }

    private mutating func primary() throws(TextError) -> Syntax {
        let start = tokenStart
        let kind: Syntax.Kind
        switch token {
        case .number(let value): kind = .number(value)
        case .string(let text): kind = .string(text)
        case .identifier("true"): kind = .boolean(true)
        case .identifier("false"): kind = .boolean(false)
        case .identifier("null"): kind = .null
        case .identifier(let name): kind = .identifier(name)
        case .mark(.openParenthesis):
            try advance()
            let inner = try expression()
            try expect(.closeParenthesis, "missing ) in parenthetical")
            return Syntax(inner.kind, start..<previousEnd)
        case .mark(.openBracket):
            try advance()
            let items = try list(until: .closeBracket, "missing ] after element list")
            return Syntax(.array(items), start..<previousEnd)
        case .mark(.slash): kind = .regex(try lexer.regex())
        default: throw unexpected("syntax error")
        }
        try advance()
        return Syntax(kind, start..<previousEnd)
    }
}
