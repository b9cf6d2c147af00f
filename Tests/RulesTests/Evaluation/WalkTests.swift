import Rules
import Testing
import Tree

/// Checks the rules that a read or a write evaluates, with their order and paths (security-rules 7).
@Suite struct WalkTests {
    private let user = AuthContext(auth: .null)

    /// Returns `kind path=result` for every rule that was evaluated.
    private func asked(_ explanation: Explanation) -> [String] {
        explanation.steps.map { step in
            "\(step.rule.kind.rawValue) \(step.path)=\(step.result.map(String.init) ?? "error")"
        }
    }

    private func read(_ text: String, _ path: Path, data: String = "null") throws -> [String] {
        let root = try JSONParser.parse(data)
        let rules = try rules(text)
        let explanation = rules.explainRead(path, root: root, auth: user, now: 0)
        #expect(explanation.decision == rules.mayRead(path, query: nil, root: root, auth: user, now: 0))
        return asked(explanation) + [explanation.decision.isAllowed ? "allowed" : "denied"]
    }

    private func write(_ text: String, _ changes: [(Path, String)], data: String = "null") throws -> [String] {
        let root = try JSONParser.parse(data)
        var new = root
        for (path, value) in changes { new = new.replacing(path, with: try JSONParser.parse(value)) }
        let rules = try rules(text)
        let paths = changes.map(\.0)
        let explanation = rules.explainWrite(paths, root: root, newRoot: new, auth: user, now: 0)
        #expect(explanation.decision == rules.mayWrite(paths, root: root, newRoot: new, auth: user, now: 0))
        return asked(explanation) + [explanation.decision.isAllowed ? "allowed" : "denied"]
    }

    @Test func readsAreAskedFromTheRootUntilOneGrants() throws {
        let text = """
            {"rules":{".read":"data.child('open').val() == true","a":{".read":"data.exists()","$b":{".read":true,"c":{".read":false}}}}}
            """
        #expect(try read(text, "") == [".read /=false", "denied"])
        #expect(try read(text, "", data: "{\"open\":true}") == [".read /=true", "allowed"])
        #expect(try read(text, "a") == [".read /=false", ".read /a=false", "denied"])
        #expect(try read(text, "a/x/c/d") == [".read /=false", ".read /a=false", ".read /a/x=true", "allowed"])
        #expect(try read(text, "a/x", data: "{\"a\":1}") == [".read /=false", ".read /a=true", "allowed"])
        #expect(try read(text, "z/y") == [".read /=false", "denied"])
        // The priority is part of its node.
        #expect(try read(text, "a/.priority") == [".read /=false", ".read /a=false", "denied"])
    }

    @Test func literalChildrenComeBeforeTheWildcard() throws {
        let text = "{\"rules\":{\"$x\":{\".read\":true},\"a\":{},\"b\":{\".read\":\"false\"}}}"
        #expect(try read(text, "c") == [".read /c=true", "allowed"])
        #expect(try read(text, "a") == ["denied"])
        #expect(try read(text, "b") == [".read /b=false", "denied"])
        #expect(try read(text, "") == ["denied"])
    }

    @Test func anErrorCountsAsFalseAndTheWalkContinues() throws {
        let text = "{\"rules\":{\".read\":\"data.val() > 1\",\"a\":{\".read\":\"data.val() < 5\"}}}"
        #expect(try read(text, "a", data: "{\"a\":3}") == [".read /=error", ".read /a=true", "allowed"])
    }

    @Test func aWriteIsGrantedOnceAndValidatedEverywhere() throws {
        let text = """
            {"rules":{".write":"newData.exists()",".validate":true,"a":{".write":false,".validate":"newData.hasChild('b')",
            "b":{".validate":"newData.isNumber()"},"$c":{".validate":"newData.isString()"}}}}
            """
        #expect(
            try write(text, [("a/b", "1")]) == [
                ".write /=true", ".validate /=true", ".validate /a=true", ".validate /a/b=true", "allowed",
            ])
        // Every existing node below the written path is validated.
        #expect(
            try write(text, [("a", "{\"b\":1,\"x\":\"s\",\"y\":\"t\"}")]) == [
                ".write /=true", ".validate /=true", ".validate /a=true", ".validate /a/b=true", ".validate /a/x=true",
                ".validate /a/y=true", "allowed",
            ])
        #expect(
            try write(text, [("a", "{\"b\":1,\"x\":5,\"y\":\"t\"}")]) == [
                ".write /=true", ".validate /=true", ".validate /a=true", ".validate /a/b=true", ".validate /a/x=false",
                "denied",
            ])
        // Nodes beside the written path are not validated.
        #expect(
            try write(text, [("a/x", "\"s\"")], data: "{\"a\":{\"b\":\"wrong\"}}") == [
                ".write /=true", ".validate /=true", ".validate /a=true", ".validate /a/x=true", "allowed",
            ])
    }

    @Test func whatIsGoneIsNotValidated() throws {
        let text = "{\"rules\":{\"a\":{\".write\":true,\".validate\":false,\"b\":{\".validate\":false}}}}"
        #expect(try write(text, [("a", "null")], data: "{\"a\":1}") == [".write /a=true", "allowed"])
        #expect(try write(text, [("a/b", "null")], data: "{\"a\":{\"b\":1}}") == [".write /a=true", "allowed"])
        #expect(
            try write(text, [("a/b", "null")], data: "{\"a\":{\"b\":1,\"c\":2}}")
                == [".write /a=true", ".validate /a=false", "denied"])
    }

    @Test func aWriteMustBeGrantedAtOrAboveItsPath() throws {
        let text = "{\"rules\":{\"a\":{\"b\":{\".write\":true}}}}"
        #expect(try write(text, [("a/b", "1")]) == [".write /a/b=true", "allowed"])
        #expect(try write(text, [("a/b/c/d", "1")]) == [".write /a/b=true", "allowed"])
        #expect(try write(text, [("a", "{\"b\":1}")]) == ["denied"])
        #expect(try write(text, [("", "1")]) == ["denied"])
    }

    @Test func allPathsOfAnUpdateMustBeAllowed() throws {
        let text =
            "{\"rules\":{\"$x\":{\".write\":\"newData.parent().child('b').exists()\",\".validate\":\"newData.isNumber()\"}}}"
        // Each rule sees the tree with all the changes.
        #expect(
            try write(text, [("a", "1"), ("b", "2")])
                == [".write /a=true", ".validate /a=true", ".write /b=true", ".validate /b=true", "allowed"])
        #expect(
            try write(text, [("a", "1"), ("b", "\"s\"")])
                == [".write /a=true", ".validate /a=true", ".write /b=true", ".validate /b=false", "denied"])
        #expect(try write(text, [("a", "1"), ("c", "2")]) == [".write /a=false", ".validate /a=true", "denied"])
    }

    @Test func dataIsBeforeAndNewDataAfter() throws {
        let text = """
            {"rules":{"a":{".write":"!data.exists() || newData.val() == data.val() + 1","$k":{".validate":"root.hasChild('a') == data.parent().exists()"}}}}
            """
        #expect(try write(text, [("a", "5")]) == [".write /a=true", "allowed"])
        #expect(try write(text, [("a", "6")], data: "{\"a\":5}") == [".write /a=true", "allowed"])
        #expect(try write(text, [("a", "7")], data: "{\"a\":5}") == [".write /a=false", "denied"])
        #expect(try write(text, [("a", "{\"k\":1}")]) == [".write /a=true", ".validate /a/k=true", "allowed"])
    }

    /// Validation goes down only as many levels as the rules have, however deep the data is.
    @Test func validationEndsWithTheRules() throws {
        let text = "{\"rules\":{\".write\":true,\"$a\":{\"$b\":{\".validate\":\"newData.exists()\"}}}}"
        #expect(
            try write(text, [("", "{\"x\":{\"y\":{\"z\":{\"w\":1}}},\"v\":1}")])
                == [".write /=true", ".validate /x/y=true", "allowed"])
    }

    @Test func theDecidingRuleIsNamed() throws {
        let rules = try rules("{\"rules\":{\"a\":{\".read\":\"1 == 1\"},\"b\":{\".write\":\"false\"}}}")
        let granted = rules.explainRead("a/b", root: .null, auth: user, now: 0)
        #expect(granted.deciding?.pattern == "/a" && granted.description.hasSuffix("Allowed, by .read of /a (1:25).\n"))
        let refused = rules.explainWrite(["b"], root: .null, newRoot: .int(1), auth: user, now: 0)
        #expect(refused.deciding?.pattern == "/b" && refused.decision != .allowed)
        let silent = rules.explainRead("c", root: .null, auth: user, now: 0)
        #expect(silent.deciding == nil && silent.steps.isEmpty)
        #expect(silent.description == "Denied: no .read rule allowed the operation at /c.\n")
    }
}
