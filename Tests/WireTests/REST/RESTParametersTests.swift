import TestSupport
import Testing
import Tree
import Wire

@Suite struct RESTParametersTests {
    private func parse(_ text: String) throws(RESTError) -> RESTParameters { try RESTParameters(Array(text.utf8)[...]) }

    private func refusal(_ text: String) -> RESTError? {
        do throws(RESTError) {
            _ = try parse(text)
            return nil
        } catch {
            return error
        }
    }

    @Test func defaults() throws {
        for parameters in [try RESTParameters(nil), try parse(""), try parse("other=1&&=x&flag")] {
            #expect(parameters.query == nil)
            #expect(parameters.print == .normal)
            #expect(parameters.form == .plain)
            #expect(!parameters.isShallow)
        }
    }

    @Test func plainOnes() throws {
        let parameters = try parse(
            "ns=my-db&auth=t%2Bk&print=pretty&shallow=true&format=export&download=a+b.json&timeout=3s&writeSizeLimit=small"
        )
        #expect(parameters.namespace == "my-db")
        #expect(parameters.auth == "t+k")
        #expect(parameters.print == .pretty)
        #expect(parameters.isShallow)
        #expect(parameters.form == .export)
        #expect(parameters.download == "a b.json")
        #expect(parameters.timeout == 3_000)
        #expect(parameters.writeTimeout == 10_000)
        #expect(try parse("timeout=15min").timeout == 900_000)
        #expect(try parse("callback=a.b$_[0]").callback == "a.b$_[0]")
        #expect(try parse("eventIds=true").wantsEventIDs == true)
        #expect(try parse("eventIds=false").wantsEventIDs == false)
        #expect(try parse("").wantsEventIDs == nil)
    }

    @Test(arguments: [
        "print=loud", "shallow=yes", "eventIds=1", "format=xml", "callback=1a", "callback=a(b", "callback=",
        "timeout=5",
        "timeout=0s",
        "timeout=16min", "timeout=99999999999999999999s", "timeout=-1s", "writeSizeLimit=huge", "ns=%FF", "auth=%2",
    ])
    func refusals(text: String) {
        #expect(refusal(text)?.status == 400)
    }

    @Test func queries() throws {
        #expect(try parse("orderBy=%22$key%22").query?.index == .key)
        #expect(try parse("orderBy=\"$value\"").query?.index == .value)
        #expect(try parse("orderBy=\"$priority\"").query?.index == .priority)
        #expect(try parse("orderBy=\"a/b\"").query?.index == .child(Path(splitting: "a/b")))
        let query = try #require(try parse("orderBy=\"height\"&startAt=3&endBefore=\"x\"&limitToLast=2").query)
        #expect(query.start == Query.Bound(value: .init(.int(3))))
        #expect(query.end == Query.Bound(value: .init(.string("x")), isInclusive: false))
        #expect(query.limit == .last(2))
        let equal = try #require(try parse("orderBy=\"a\"&equalTo=null").query)
        #expect(equal.start == equal.end)
        #expect(equal.start?.value.node == .null)
        let tie = try #require(try parse("orderBy=\"a\"&startAfter=5,\"key\"").query)
        #expect(tie.start == Query.Bound(value: .init(.int(5)), key: Key("key"), isInclusive: false))
        #expect(try parse("shallow=true&limitToFirst=3").query?.index == .key)
    }

    /// The JavaScript SDK's REST client uses names for the positions before and after all keys.
    @Test func boundsBeforeAndAfterAllKeys() throws {
        let two = Query.IndexValue(.int(2))
        for (text, bound) in [
            ("startAfter=2,\"[MAX_NAME]\"", Query.Bound(value: two, key: Key("[MAX_NAME]"), isInclusive: false)),
            ("startAt=2,\"[MIN_NAME]\"", Query.Bound(value: two, key: Key("[MIN_NAME]"))),
            ("startAt=null,\"[MAX_NAME]\"", Query.Bound(value: .init(.null), key: Key("[MAX_NAME]"))),
        ] { #expect(try parse("orderBy=\"n\"&\(text)").query?.start == bound) }
        #expect(
            try parse("orderBy=%22n%22&endBefore=2%2C%22%5BMIN_NAME%5D%22&format=export").query?.end
                == Query.Bound(value: two, key: Key("[MIN_NAME]"), isInclusive: false))
    }

    @Test(arguments: [
        "startAt=2,\"a/b\"", "startAt=2,\"\"", "startAfter=2,\"a.b\"", "endAt=\"x\",\"#\"", "endBefore=null,\"$a\"",
        "equalTo=2,\"[0]\"", "equalTo=2,\"[MAX_NAME\"", "startAt=2,\"a\\u0001\"", "startAt=2,\"a\\u007f\"",
    ])
    func keysOfBoundsMustBeValid(text: String) {
        #expect(refusal("orderBy=\"n\"&\(text)") == RESTError(400, "Constraint key field must be a valid key name"))
    }

    @Test func longKeysOfBounds() throws {
        let key = String(repeating: "k", count: KeyRules.maxKeyBytes)
        #expect(try parse("orderBy=\"n\"&startAt=2,\"\(key)\"").query?.start?.key == Key(key))
        #expect(refusal("orderBy=\"n\"&startAt=2,\"\(key)k\"")?.status == 400)
    }

    @Test(arguments: [
        ("limitToFirst=3", "orderBy must be defined when other query parameters are defined"),
        ("orderBy=name", "orderBy must be a valid JSON encoded path"),
        ("orderBy=\"\"", "orderBy must be a valid JSON encoded path"),
        ("orderBy=5", "orderBy must be a valid JSON encoded path"),
        ("orderBy=\"a.b\"", "orderBy must be a valid JSON encoded path"),
        ("orderBy=\"$key\"&startAt=5", "Provided key index type is invalid, must be string"),
        ("orderBy=\"$key\"&startAt=\"a\\\"", "Constraint key field must be a valid key name"),
        ("orderBy=\"$key\"&endAt={}", "Constraint key field must be a valid key name"),
        (
            "orderBy=\"a\"&equalTo=1&startAt=1",
            "equalTo cannot be specified in addition to startAfter, startAt, endAt, or endBefore"
        ),
        ("orderBy=\"a\"&startAt=1&startAfter=1", "Only one of startAt and startAfter may be specified"),
        ("orderBy=\"a\"&endAt=1&endBefore=1", "Only one of endAt and endBefore may be specified"),
        ("orderBy=\"a\"&limitToFirst=1&limitToLast=1", "Only one of limitToFirst and limitToLast may be specified"),
        ("orderBy=\"a\"&limitToFirst=x", "limitToFirst must be an integer"),
        ("orderBy=\"a\"&limitToLast=0", "limitToLast must be positive"),
        ("orderBy=\"a\"&startAt={\"a\":1}", "Constraint index field must be a JSON primitive"),
        ("orderBy=\"a\"&startAt={}", "Constraint index field must be a JSON primitive"),
        ("orderBy=\"a\"&startAt=name", "Constraint index field must be a JSON primitive"),
    ])
    func queryRefusals(text: String, message: String) {
        #expect(refusal(text) == RESTError(400, message))
    }

    @Test(arguments: [1, 2, 3] as [UInt64])
    func anyBytes(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let names = [
            "orderBy", "startAt", "endAt", "equalTo", "limitToFirst", "print", "shallow", "timeout", "ns", "callback",
            "x",
        ]
        let values = [
            "\"$key\"", "\"a\"", "5", "null", "true", "%22", "[", "{}", "\"\\u0000\"", "-0", "1e999", "5,\"k\"",
            "pretty",
        ]
        for _ in 0..<3_000 {
            var text: [UInt8] = []
            for _ in 0..<random.below(5) {
                text += Array((random.pick(names) + "=" + random.pick(values) + "&").utf8)
                if random.oneIn(4) { text.append(UInt8(truncatingIfNeeded: random.next())) }
            }
            do throws(RESTError) {
                _ = try RESTParameters(text[...])
            } catch {
                #expect(error.status == 400)
            }
        }
    }
}
