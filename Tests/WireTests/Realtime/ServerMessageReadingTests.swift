import Testing
import Tree
import Wire

/// Checks recorded messages of realtime servers: most lines are from the protocol reference (rtdb-protocol 1 to 3, 10).
@Suite struct ServerMessageReadingTests {
    private func read(_ text: String) throws -> ServerMessage { try ServerMessageParser.parse(Array(text.utf8)) }

    @Test func controlMessages() throws {
        let hello =
            "{\"t\":\"c\",\"d\":{\"t\":\"h\",\"d\":{\"ts\":1795162912489,\"v\":\"5\",\"h\":\"localhost:9560\",\"s\":\"3377e5c0f15260deac0c7e75fb47196d\"}}}"
        #expect(
            try read(hello)
                == .control(
                    .hello(
                        ServerHello(
                            timestamp: 1_795_162_912_489, host: "localhost:9560",
                            session: "3377e5c0f15260deac0c7e75fb47196d"))))
        let expected: [(String, ServerControl)] = [
            ("{\"t\":\"c\",\"d\":{\"t\":\"r\",\"d\":\"other.example:443\"}}", .reset(host: "other.example:443")),
            ("{\"t\":\"c\",\"d\":{\"t\":\"s\",\"d\":\"reason\"}}", .shutdown(reason: "reason")),
            ("{\"t\":\"c\",\"d\":{\"t\":\"e\",\"d\":\"text\"}}", .error("text")),
            ("{\"t\":\"c\",\"d\":{\"t\":\"o\",\"d\":null}}", .pong),
            ("{\"t\":\"c\",\"d\":{\"t\":\"o\",\"d\":{}}}", .pong),
            ("{\"t\":\"c\",\"d\":{\"t\":\"o\"}}", .pong),
            ("{\"t\":\"c\",\"d\":{\"t\":\"a\",\"d\":{}}}", .upgradeOffer),
            ("{\"t\":\"c\",\"d\":{\"t\":\"n\",\"d\":{}}}", .endOfTransmission),
            ("{\"t\":\"c\",\"d\":{\"t\":\"x\",\"d\":[1,2]}}", .unknown(type: "x")),
            // A reason that is not a text is ignored; the message has the same meaning.
            ("{\"t\":\"c\",\"d\":{\"t\":\"s\",\"d\":5}}", .shutdown(reason: "")),
        ]
        for (text, control) in expected { #expect(try read(text) == .control(control), "\(text)") }
    }

    @Test func dataInEitherOrderOfMembers() throws {
        let real = "{\"t\":\"d\",\"d\":{\"b\":{\"p\":\"c\",\"d\":1},\"a\":\"d\"}}"
        let ours = "{\"t\":\"d\",\"d\":{\"a\":\"d\",\"b\":{\"p\":\"c\",\"d\":1}}}"
        let expected = ServerMessage.push(.change(.put(Path(splitting: "c"), .int(1)), tag: nil))
        #expect(try read(real) == expected)
        #expect(try read(ours) == expected)
        #expect(string(expected.text) == ours)
    }

    @Test func mergesWithTags() throws {
        let text =
            "{\"t\":\"d\",\"d\":{\"a\":\"m\",\"b\":{\"p\":\"list\",\"d\":{\"k1\":null,\"k3\":{\"a\":1}},\"t\":7}}}"
        guard case .push(.change(.patch(let path, let changes), let tag, nil)) = try read(text) else {
            Issue.record("no merge")
            return
        }
        #expect(path == Path(splitting: "list") && tag == 7)
        #expect(changes.map(\.path.description) == ["/k1", "/k3"])
        #expect(changes.map(\.value) == [.null, Node(children: [(Key("a"), .int(1))])])
        #expect(string(try read(text).text) == text)
    }

    @Test func pathsWithAndWithoutASlash() throws {
        for (text, keys) in [("", []), ("/", []), ("a/b", ["a", "b"]), ("/a//b/", ["a", "b"]), ("é/😀", ["é", "😀"])] {
            let message = "{\"t\":\"d\",\"d\":{\"a\":\"d\",\"b\":{\"p\":\"\(text)\",\"d\":true}}}"
            #expect(
                try read(message) == .push(.change(.put(Path(keys.map { Key($0) }), .bool(true)), tag: nil)), "\(text)")
        }
    }

    @Test func priorities() throws {
        let put = "{\"t\":\"d\",\"d\":{\"a\":\"d\",\"b\":{\"p\":\"a/.priority\",\"d\":3}}}"
        #expect(try read(put) == .push(.change(.put(Path(splitting: "a/.priority"), .int(3)), tag: nil)))
        let value = "{\"t\":\"d\",\"d\":{\"a\":\"d\",\"b\":{\"p\":\"a\",\"d\":{\".value\":2,\".priority\":\"p\"}}}}"
        #expect(
            try read(value)
                == .push(.change(.put(Path(splitting: "a"), Node.int(2).withPriority(.string("p"))), tag: nil)))
        #expect(string(try read(value).text) == value)
        for wrong in ["true", "{\"a\":1}", "[1]"] {
            let text = "{\"t\":\"d\",\"d\":{\"a\":\"d\",\"b\":{\"p\":\"a/.priority\",\"d\":\(wrong)}}}"
            #expect(throws: MessageError.self, "\(wrong)") { try read(text) }
        }
    }

    @Test func revocations() throws {
        let cases: [(String, ServerPush)] = [
            ("\"a\":\"c\",\"b\":{\"p\":\"x\"}", .listenRevoked(Path(splitting: "x"), queries: nil)),
            (
                "\"a\":\"c\",\"b\":{\"p\":\"x\",\"q\":[{\"l\":2},{\"i\":\".key\"}]}",
                .listenRevoked(
                    Path(splitting: "x"),
                    queries: [RawJSON(Array("{\"l\":2}".utf8)), RawJSON(Array("{\"i\":\".key\"}".utf8))])
            ),
            (
                "\"a\":\"ac\",\"b\":{\"s\":\"expired_token\",\"d\":\"Auth token is expired.\"}",
                .authRevoked(.expiredToken, explanation: "Auth token is expired.")
            ),
            (
                "\"a\":\"apc\",\"b\":{\"s\":\"invalid_token\",\"d\":\"x\"}",
                .appCheckRevoked(.invalidToken, explanation: "x")
            ),
            ("\"a\":\"sd\",\"b\":{\"msg\":\"one\\ntwo\"}", .securityDebug("one\ntwo")),
            ("\"a\":\"zz\",\"b\":{}", .unknown(action: "zz")),
        ]
        for (body, push) in cases {
            let text = "{\"t\":\"d\",\"d\":{\(body)}}"
            #expect(try read(text) == .push(push), "\(body)")
            #expect(string(ServerMessage.push(push).text) == text, "\(body)")
        }
    }

    @Test func answers() throws {
        guard
            case .response(let stale) = try read(
                "{\"t\":\"d\",\"d\":{\"r\":9,\"b\":{\"s\":\"datastale\",\"d\":\"Transaction hash does not match\"}}}")
        else {
            Issue.record("no answer")
            return
        }
        #expect(stale.number == 9 && stale.status == .dataStale)
        #expect(stale.explanation == "Transaction hash does not match" && stale.login == nil)
        guard case .response(let listen) = try read("{\"t\":\"d\",\"d\":{\"r\":3,\"b\":{\"s\":\"ok\",\"d\":{}}}}"),
            case .response(let warned) = try read(
                "{\"t\":\"d\",\"d\":{\"r\":3,\"b\":{\"s\":\"ok\",\"d\":{\"w\":[\"other\",\"no_index\"]}}}}")
        else {
            Issue.record("no answer")
            return
        }
        #expect(!listen.warnsOfMissingIndex && warned.warnsOfMissingIndex && listen.status == .ok)
        #expect(listen.explanation == nil)
        guard case .response(let bare) = try read("{\"t\":\"d\",\"d\":{\"r\":0,\"b\":{\"s\":\"strange\"}}}") else {
            Issue.record("no answer")
            return
        }
        #expect(bare.status == RealtimeStatus(rawValue: "strange") && bare.detail.isNull)
    }

    @Test func dataThatWasAskedFor() throws {
        func response(_ detail: String) throws -> ServerResponse {
            guard
                case .response(let response) = try read(
                    "{\"t\":\"d\",\"d\":{\"r\":4,\"b\":{\"s\":\"ok\",\"d\":\(detail)}}}")
            else { throw MessageError(reason: "no answer") }
            return response
        }
        #expect(
            try response("{\"a\":{\".value\":1,\".priority\":2}}").value()
                == Node(children: [(Key("a"), Node.int(1).withPriority(.int(2)))]))
        #expect(try response("null").value() == .null)
        #expect(throws: MessageError.self) { try response("{\"a.b\":1}").value() }
        #expect(throws: MessageError.self) { try response("{\".sv\":\"timestamp\"}").value() }
    }

    @Test func logins() throws {
        func login(_ detail: String) throws -> LoginAnswer? {
            guard
                case .response(let response) = try read(
                    "{\"t\":\"d\",\"d\":{\"r\":2,\"b\":{\"s\":\"ok\",\"d\":\(detail)}}}")
            else { throw MessageError(reason: "no answer") }
            return response.login
        }
        let user = try #require(
            try login("{\"auth\":{\"uid\":\"u1\",\"token\":{\"google.com\":[1]}},\"expires\":1600000000}"))
        #expect(user.expires == 1_600_000_000)
        #expect(user.auth.map { string($0.text) } == "{\"uid\":\"u1\",\"token\":{\"google.com\":[1]}}")
        let administrator = try #require(try login("{\"auth\":null,\"expires\":null}"))
        #expect(administrator.auth == nil && administrator.expires == nil)
        #expect(try login("\"\"") == nil)
        #expect(try login("{}") == nil)
    }

    @Test func theLastOfEqualMembersCounts() throws {
        let text = "{\"t\":\"c\",\"t\":\"d\",\"d\":{\"a\":\"d\",\"b\":{\"p\":\"a\",\"p\":\"b\",\"d\":1,\"d\":2}}}"
        #expect(try read(text) == .push(.change(.put(Path(splitting: "b"), .int(2)), tag: nil)))
    }
}
