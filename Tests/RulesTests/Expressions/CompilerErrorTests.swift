import Rules
import Testing

/// Checks the message and position of each error that the compiler finds in an upload (security-rules 4).
@Suite struct CompilerErrorTests {
    /// Returns the error's column within the expression, from 1, and its text.
    private func mistake(_ expression: String, kind: String = ".read") -> String? {
        let escaped = expression.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
        let before = "{\"rules\":{\"$a\":{\"\(kind)\":\""
        guard let error = uploadError("\(before)\(escaped)\"}}}") else { return nil }
        let parts = error.dropLast().split(separator: ":", maxSplits: 2)
        guard parts.count == 3, let column = Int(parts[1]) else { return error }
        return "\(column - before.utf16.count):\(parts[2])"
    }

    @Test(arguments: [
        ("data", "1: Expression must evaluate to a boolean."), ("1", "1: Expression must evaluate to a boolean."),
        ("'a'", "1: Expression must evaluate to a boolean."), ("null", "1: Expression must evaluate to a boolean."),
        ("auth", "1: Expression must evaluate to a boolean."),
        ("data.val()", "1: Expression must evaluate to a boolean."),
        ("now + 1", "1: Expression must evaluate to a boolean."), ("$a", "1: Expression must evaluate to a boolean."),
        ("query", "1: Expression must evaluate to a boolean."),
        ("data.exists", "1: Expression must evaluate to a boolean."),
        ("query.orderByChild", "1: Expression must evaluate to a boolean."),
        ("true ? 1 : 2", "1: Expression must evaluate to a boolean."),
    ]) func results(expression: String, expected: String) { #expect(mistake(expression) == expected) }

    @Test(arguments: [
        ("foo == 1", "1: Unknown variable 'foo'."), ("true && $b == ''", "9: Unknown variable '$b'."),
        ("Data.exists()", "1: Unknown variable 'Data'."),
        ("newData.exists()", "1: newData is invalid in .read expressions."),
        ("undefined == 1", "1: Unknown variable 'undefined'."), ("é == 1", "1: Unknown variable 'é'."),
        ("data.foo", "6: No such method/property 'foo'."), ("data.length", "6: No such method/property 'length'."),
        ("data.contains('a')", "6: No such method/property 'contains'."),
        ("'a'.val()", "5: No such method/property 'val'."),
        ("'a'.foo == 1", "5: No such method/property 'foo'."), ("query.foo", "7: No such method/property 'foo'."),
        ("data['foo']", "6: No such method/property 'foo'."),
        ("now.length == 1", "5: Invalid property access: target is not an object."),
        ("true.a", "6: Invalid property access: target is not an object."),
        ("null.a == 1", "6: Invalid property access: target is not an object."),
        ("data.val.a", "10: Invalid property access: target is not an object."),
        ("query.startAt.a == 1", "15: No such method/property 'a'."),
        ("query.orderByChild.length == 1", "20: Invalid property access: target is not an object."),
        ("query.orderByKey.length == 1", "18: Invalid property access: target is not an object."),
        ("query.equalTo[0] == ''", "15: Invalid property access."),
        ("data[1] == 1", "6: Invalid property access."), ("'a'[0] == ''", "5: Invalid property access."),
        ("auth[data] == 1", "6: Invalid property access."), ("auth[/a/] == 1", "6: Invalid property access."),
    ]) func names(expression: String, expected: String) { #expect(mistake(expression) == expected) }

    @Test(arguments: [
        ("!1", "1: ! only operates on booleans."), ("!data.val()", "1: ! only operates on booleans."),
        ("-'a' == 1", "1: - only operates on numbers."), ("-true == 1", "1: - only operates on numbers."),
        ("1 && true", "1: Left operand of && must be boolean."),
        ("true && 1", "1: Right operand of && must be boolean."),
        ("true && true && 'a'", "1: Right operand of && must be boolean."),
        ("auth || true", "1: Left operand of || must be boolean."),
        ("true || auth", "1: Right operand of || must be boolean."),
        ("data == 1", "1: Invalid == expression: left operand is not a number, boolean, string, null."),
        ("1 == data", "1: Invalid == expression: right operand is not a number, boolean, string, or null."),
        ("data != 1", "1: Invalid != expression: left operand is not a number, boolean, string, or null."),
        ("1 !== query", "1: Invalid != expression: right operand is not a number, boolean, string, or null."),
        ("1 == data.val", "1: Invalid == expression: right operand is not a number, boolean, string, or null."),
        ("true < 1", "1: Invalid < expression: left operand must be a number or string."),
        ("1 <= null", "1: Invalid <= expression: right operand must be a number or string."),
        ("data > 1", "1: Invalid > expression: left operand must be a number or string."),
        ("1 >= true", "1: Invalid >= expression: right operand must be a number or string."),
        ("true + 1 == 1", "1: Invalid + expression: left operand is not a number or string."),
        ("1 + 2 + null == 1", "1: Invalid + expression: right operand is not a number or string."),
        ("'a' - 1 == 1", "1: Invalid - expression: left operand is not a number."),
        ("1 * 'a' == 1", "1: Invalid * expression: right operand is not a number."),
        ("null / 1 == 1", "1: Invalid / expression: left operand is not a number."),
        ("1 % true == 1", "1: Invalid % expression: right operand is not a number."),
        ("1 ? true : false", "1: condition of ? must be boolean."),
        ("auth ? true : false", "1: condition of ? must be boolean."),
        ("true ? query : true", "8: Invalid ? expression: branch is not a value."),
        ("true ? true : /a/", "15: Invalid ? expression: branch is not a value."),
        ("true ? data.val : true", "8: Invalid ? expression: branch is not a value."),
    ]) func operators(expression: String, expected: String) { #expect(mistake(expression) == expected) }

    @Test(arguments: [
        ("data()", "1: Type error: Function call on target that is not a function."),
        ("auth.uid() == ''", "1: Type error: Function call on target that is not a function."),
        ("'a'.length() == 1", "1: Type error: Function call on target that is not a function."),
        ("data.exists()()", "1: Type error: Function call on target that is not a function."),
        ("data.exists(1)", "1: exists() expects no arguments."), ("data.val(1) == 1", "1: val() expects no arguments."),
        ("data.parent(1).exists()", "1: parent() expects no arguments."),
        ("data.getPriority(null) == 1", "1: getPriority() expects no arguments."),
        ("data.isString(1)", "1: isString() expects no arguments."),
        ("data.isNumber(1)", "1: isNumber() expects no arguments."),
        ("data.isBoolean(1)", "1: isBoolean() expects no arguments."),
        ("'a'.toLowerCase(1) == ''", "1: toLowerCase() expects no arguments."),
        ("'a'.toUpperCase(1) == ''", "1: toUpperCase() expects no arguments."),
        ("data.child().exists()", "1: child() expects 1 argument."),
        ("data.child('a', 'b').exists()", "1: child() expects 1 argument."),
        ("data.hasChild()", "1: hasChild() expects 1 argument."),
        ("data.child(1).exists()", "12: child() expects a string argument."),
        ("data.hasChild(null)", "15: hasChild() expects a string argument."),
        ("data.child(1 + 2).exists()", "12: child() expects a string argument."),
        ("data.child(data).exists()", "12: child() expects a string argument."),
        ("data.child(true).exists()", "12: child() expects a string argument."),
        ("data.child(null + 'a').exists()", "12: Invalid + expression: left operand is not a number or string."),
        ("data.hasChildren('a')", "18: hasChildren() expects an array of child names."),
        (
            "data.hasChildren(['a'], 'b')",
            "1: hasChildren() expects only a single argument (containing an array of child names)."
        ),
        ("data.hasChildren([1])", "19: hasChildren() expects an array of strings."),
        ("data.hasChildren(['a', data])", "24: hasChildren() expects an array of strings."),
        ("data.hasChildren(foo)", "18: Unknown variable 'foo'."), ("['a'] == 1", "1: Unexpected array literal."),
        ("'a'.contains()", "1: contains() expects 1 argument."),
        ("'a'.contains(1)", "14: contains() expects a string argument."),
        ("'a'.beginsWith('a', 'b')", "1: beginsWith() expects 1 argument."),
        ("'a'.endsWith(null)", "14: endsWith() expects a string argument."),
        ("'a'.replace('a') == ''", "1: replace() expects two arguments."),
        ("'a'.replace(1, 'a') == ''", "13: Argument 1 of replace() must be a string."),
        ("'a'.replace('a', 1) == ''", "18: Argument 2 of replace() must be a string."),
        ("'a'.matches()", "1: matches() expects 1 regular expression literal argument."),
        ("'a'.matches('a')", "13: matches() expects a regular expression literal argument."),
        ("'a'.matches(foo)", "13: Unknown variable 'foo'."),
        ("'a'.matches(/a/, /b/)", "1: matches() expects 1 regular expression literal argument."),
        ("'a'.matches(/(/)", "13: Illegal regular expression, unexpected end-of-string"),
    ]) func calls(expression: String, expected: String) { #expect(mistake(expression) == expected) }

    /// Expressions of other rules may use identifiers that read rules may not.
    @Test(arguments: [".write", ".validate"]) func newDataIsForWrites(kind: String) {
        #expect(mistake("newData.exists()", kind: kind) == nil)
        #expect(
            mistake(
                "newData.parent().hasChildren(['a', $a]) && data.child('x/' + $a).val() == newData.val()", kind: kind)
                == nil)
        #expect(mistake("newData", kind: kind) == "1: Expression must evaluate to a boolean.")
    }

    /// A type that is unknown at upload is accepted wherever it may be right.
    @Test(arguments: [
        "auth.a.b.c", "data.val() == auth.uid", "auth[$a] == 1", "auth['x'].y == null", "-data.val() > 1",
        "auth.n * 2 == 4",
        "data.val().contains(auth.x)", "data.child(auth.uid).exists()", "data.child(data.val()).exists()",
        "(true ? data : root).exists()", "query.limitToFirst < 10",
        "query.orderByChild == 'a'", "query.orderByKey", "query.equalTo.toLowerCase() == auth.x.toLowerCase()",
        "data.child('a' + 1).exists()", "data.child(1 + 'a').exists()",
        "(true ? 1 : 'a') == 1", "(true ? null : 1) == null", "data.hasChildren([auth.uid, 'a' + now])",
    ]) func whatMayBeRight(expression: String) {
        let isBoolean = expression != "auth.a.b.c"
        #expect(mistake(expression) == (isBoolean ? nil : "1: Expression must evaluate to a boolean."))
    }
}
