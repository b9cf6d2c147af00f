import Testing
import Tokens
import Tree

/// Tests of claims as rules see them, and of their JSON form.
struct ClaimNodeTests {
    @Test func `claims are a tree`() {
        let claims: Claims = ["uid": "u", "age": 7, "admin": true, "ratio": .number(1.5)]
        #expect(
            Node(claims)
                == Node(children: [
                    (Key("uid"), .string("u")), (Key("age"), .int(7)), (Key("admin"), .bool(true)),
                    (Key("ratio"), .double(1.5)),
                ]))
    }

    @Test func `lists have their indices as keys`() {
        let list = Node(["a", "b", ["c"]] as ClaimValue)
        #expect(list.child(Key("0")) == .string("a"))
        #expect(list.child(Key("2")).child(Key("0")) == .string("c"))
        #expect(list.childCount == 3)
    }

    @Test func `what is null or empty is not there`() {
        #expect(Node(ClaimValue.null).isNull && Node([] as ClaimValue).isNull && Node(Claims()).isNull)
        let claims: Claims = ["a": .null, "b": [], "c": .object(Claims()), "d": ["e": .null], "f": [.null, 1]]
        let node = Node(claims)
        #expect(node.childCount == 1)
        #expect(node.child(Key("f")) == Node(children: [(Key("1"), .int(1))]))
    }

    /// Checks that names may be invalid as keys of the database.
    @Test func `any names`() {
        let claims: Claims = ["google.com": 1, "https://a/b": 2, "$x": 3, "": 4, "[0]": 5]
        for (name, value) in [("google.com", 1), ("https://a/b", 2), ("$x", 3), ("", 4), ("[0]", 5)]
            as [(String, Int64)]
        {
            #expect(Node(claims).child(Key(name)) == .int(value))
        }
    }

    @Test func `a claim may be replaced and taken out, in its position`() {
        var claims: Claims = ["a": 1, "b": 2, "c": 3]
        claims["b"] = "two"
        #expect(claims.members.map(\.name) == ["a", "b", "c"] && claims["b"] == "two")
        claims["a"] = nil
        claims["missing"] = nil
        #expect(claims.members.map(\.name) == ["b", "c"] && claims["a"] == nil)
        claims["a"] = .null
        #expect(claims.members.map(\.name) == ["b", "c", "a"] && claims["a"] == .null)
        #expect((["x": 1, "x": 2] as Claims) == ["x": 2])
    }

    @Test func `values report their kind`() {
        #expect(("a" as ClaimValue).string == "a" && (1 as ClaimValue).string == nil)
        #expect((true as ClaimValue).bool == true && ("true" as ClaimValue).bool == nil)
        #expect((["a": 1] as ClaimValue).object?["a"] == 1 && ([1] as ClaimValue).object == nil)
    }

    @Test(
        arguments: [
            (.null, "null"), (true, "true"), (false, "false"), (0, "0"), (.integer(.min), "-9223372036854775808"),
            (.number(1.5), "1.5"), ("", "\"\""), ("a\"\\\n\u{0}\u{7F}é😀", "\"a\\\"\\\\\\u000a\\u0000\\u007fé😀\""),
            ([], "[]"), ([1, [2, "x"]], "[1,[2,\"x\"]]"), (.object(Claims()), "{}"),
            (["a": 1, "b": ["c": .null]], "{\"a\":1,\"b\":{\"c\":null}}"),
        ] as [(ClaimValue, String)])
    func `written claims`(value: ClaimValue, text: String) throws {
        #expect(String(decoding: ClaimsWriter.encode(value), as: UTF8.self) == text)
        #expect(try ClaimsReader.value(Array(text.utf8)) == value)
    }

    /// Checks that random claims survive a round trip.
    @Test(arguments: 1..<9 as Range<UInt64>)
    func `round trip`(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        func value(_ depth: Int) -> ClaimValue {
            switch Int.random(in: 0..<(depth == 0 ? 6 : 8), using: &random) {
            case 0: return .null
            case 1: return .bool(Bool.random(using: &random))
            case 2: return .integer(Int64(bitPattern: random.next()))
            case 3: return .number(Double(Int.random(in: -1_000...1_000, using: &random)) / 8 + 0.0625)
            case 4, 5:
                let texts = ["", "a", "é😀", "\"\\\n\t\u{0}\u{1F}\u{7F}", "google.com", "\u{2028}"]
                return .string(texts.randomElement(using: &random) ?? "")
            case 6: return .array((0..<Int.random(in: 0..<4, using: &random)).map { _ in value(depth - 1) })
            default:
                var claims = Claims()
                for number in 0..<Int.random(in: 0..<5, using: &random) {
                    claims["k\(number)\(["", ".", "é"].randomElement(using: &random) ?? "")"] = value(depth - 1)
                }
                return .object(claims)
            }
        }
        for _ in 0..<300 {
            let claims = value(4)
            #expect(try ClaimsReader.value(ClaimsWriter.encode(claims)) == claims)
        }
    }

    @Test func `errors are sentences`() {
        for (error, text) in [
            (.malformed("x"), "The token is malformed: x."),
            (.badSignature, "The token is not signed with a known key."),
            (.badClaim("iat"), "The token's claim 'iat' is missing or invalid."),
            (.expired(secondsAgo: 5), "The token expired 5 s ago."),
            (.notYetValid(claim: "nbf"), "The token's claim 'nbf' lies in the future."),
            (.tooLarge(bytes: 9), "The token has 9 bytes, which is too many."),
            (.wrongAlgorithm("none"), "The token's algorithm is none, which does not match the key."),
            (.wrongIssuer, "The token is from another issuer."), (.wrongAudience, "The token is for another audience."),
        ] as [(JWTError, String)] {
            #expect(error.description == text)
        }
    }
}
