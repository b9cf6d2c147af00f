import Rules
import Testing

/// Checks every operator with operands of every type: the result is a value, or an error, which counts as false
/// (security-rules 5).
@Suite struct OperatorTests {
    /// Stored values of each type, by their names below `data`.
    private static let data = #"{"t":true,"f":false,"z":0,"n":3,"m":-2.5,"s":"abc","e":"","o":{"x":1},"d":"3"}"#

    private func operand(_ name: String) -> String { "data.child('\(name)').val()" }

    /// Returns true, false, or error: an error ends the whole expression, so that neither it nor its negation holds.
    private func outcome(_ expression: String) throws -> String {
        let isTrue = try evaluates(expression, data: Self.data)
        let isFalse = try evaluates("!(\(expression))", data: Self.data)
        #expect(!(isTrue && isFalse))
        return isTrue ? "true" : isFalse ? "false" : "error"
    }

    private static let names = ["t", "f", "z", "n", "m", "s", "e", "o", "d", "nothing"]

    /// Two values are equal if they have the same type and value; objects equal nothing, including themselves.
    @Test(arguments: names) func equality(left: String) throws {
        for right in Self.names {
            let isEqual = left == right && left != "o"
            #expect(try outcome("\(operand(left)) == \(operand(right))") == "\(isEqual)", "\(left) == \(right)")
            #expect(try outcome("\(operand(left)) === \(operand(right))") == "\(isEqual)")
            #expect(try outcome("\(operand(left)) != \(operand(right))") == "\(!isEqual)")
            #expect(try outcome("\(operand(left)) !== \(operand(right))") == "\(!isEqual)")
        }
    }

    /// Only two numbers, or two strings, can be compared.
    @Test(arguments: names) func order(left: String) throws {
        let numbers = ["z": 0.0, "n": 3, "m": -2.5]
        let strings = ["s": "abc", "e": "", "d": "3"]
        for right in Self.names {
            for (name, number, text) in [
                ("<", { $0 < $1 }, { $0 < $1 }), ("<=", { $0 <= $1 }, { $0 <= $1 }), (">", { $0 > $1 }, { $0 > $1 }),
                (">=", { $0 >= $1 }, { $0 >= $1 }),
            ] as [(String, (Double, Double) -> Bool, (String, String) -> Bool)] {
                var expected = "error"
                if let first = numbers[left], let second = numbers[right] { expected = "\(number(first, second))" }
                if let first = strings[left], let second = strings[right] { expected = "\(text(first, second))" }
                #expect(
                    try outcome("\(operand(left)) \(name) \(operand(right))") == expected, "\(left) \(name) \(right)")
            }
        }
    }

    /// Arithmetic accepts only numbers.
    @Test(arguments: names) func arithmetic(left: String) throws {
        let numbers = ["z": 0.0, "n": 3, "m": -2.5]
        for right in Self.names {
            for (name, operation) in [
                ("-", { $0 - $1 }), ("*", { $0 * $1 }), ("/", { $1 == 0 ? .nan : $0 / $1 }),
                ("%", { $0.truncatingRemainder(dividingBy: $1) }),
            ] as [(String, (Double, Double) -> Double)] {
                guard let first = numbers[left], let second = numbers[right] else {
                    #expect(try outcome("\(operand(left)) \(name) \(operand(right)) == 1") == "error")
                    continue
                }
                let value = operation(first, second)
                // NaN equals nothing.
                let text = value.isNaN ? "0" : value < 0 ? "-\(-value)" : "\(value)"
                let expression = "\(operand(left)) \(name) \(operand(right)) == \(text)"
                #expect(try outcome(expression) == "\(!value.isNaN)", "\(expression)")
            }
        }
    }

    /// Numbers are added; with a string both operands are concatenated as text; other operands are an error.
    @Test(arguments: names) func addition(left: String) throws {
        let numbers = ["z": 0.0, "n": 3, "m": -2.5]
        let texts = ["z": "0", "n": "3", "m": "-2.5", "s": "abc", "e": "", "d": "3"]
        for right in Self.names {
            let sum = "\(operand(left)) + \(operand(right))"
            if let first = numbers[left], let second = numbers[right] {
                let value = first + second
                #expect(try outcome("\(sum) == \(value < 0 ? "-\(-value)" : "\(value)")") == "true", "\(sum)")
            } else if let first = texts[left], let second = texts[right] {
                #expect(try outcome("\(sum) == '\(first)\(second)'") == "true", "\(sum)")
            } else {
                #expect(try outcome("\(sum) == 1") == "error", "\(sum)")
            }
        }
    }

    @Test(arguments: [
        ("-data.child('n').val() == -3", "true"), ("-data.child('s').val() == 0", "error"),
        ("-data.child('nothing').val() == 0", "error"), ("- -data.child('n').val() == 3", "true"), ("-0 == 0", "true"),
        ("!(data.child('n').val() > 5)", "true"), ("!!true", "true"),
        // The second operand is evaluated only if the first does not decide.
        ("true || data.child('s').val() > 1", "true"), ("false && data.child('s').val() > 1", "false"),
        ("data.child('s').val() > 1 || true", "error"), ("data.child('s').val() > 1 && false", "error"),
        ("false || data.child('s').val() > 1", "error"), ("true && data.child('s').val() > 1", "error"),
        ("false || false || true", "true"), ("true && true && false", "false"),
        // Only the selected branch of a conditional is evaluated.
        ("true ? true : data.child('s').val() > 1", "true"), ("false ? data.child('s').val() > 1 : false", "false"),
        ("data.child('s').val() > 1 ? true : true", "error"),
        ("(data.child('t').val() == true ? 'a' : 1) == 'a'", "true"),
        ("(true ? data.child('o') : root).hasChild('x')", "true"),
        ("(true ? null : 1) == null", "true"), ("1 / 0 == 1 / 0", "false"), ("1 / 0 != 1 / 0", "true"),
        ("5 % 3 == 2", "true"), ("-5 % 3 == -2", "true"), ("5.5 % 2 == 1.5", "true"), ("1e308 * 10 > 1e308", "true"),
        ("9007199254740993 == 9007199254740992", "true"),
    ]) func evaluationOrder(expression: String, expected: String) throws {
        #expect(try outcome(expression) == expected, "\(expression)")
    }
}
