import Testing
import Tree
import Wire

@Suite struct RESTParametersWritingTests {
    private func parse(_ text: String) throws(RESTError) -> RESTParameters { try RESTParameters(Array(text.utf8)[...]) }

    @Test func nothingIsWrittenOfWhatIsMeantAnyway() throws {
        #expect(RESTParameters().text == "")
        #expect(try parse("print=pretty&shallow=false&timeout=15min&x=y").text == "print=pretty")
    }

    @Test(arguments: [
        ("ns=my-db&auth=t%2Bk", "ns=my-db&auth=t%2Bk"), ("auth=a+b", "auth=a%20b"),
        ("timeout=3s", "timeout=3000ms"), ("timeout=2min", "timeout=120000ms"),
        ("writeSizeLimit=tiny", "writeSizeLimit=tiny"), ("writeSizeLimit=unlimited", ""),
        ("format=export&print=silent", "print=silent&format=export"),
        ("orderBy=\"$key\"", "orderBy=%22%24key%22"), ("orderBy=\"$priority\"", "orderBy=%22%24priority%22"),
        ("orderBy=\"a/b\"&limitToLast=2", "orderBy=%22a%2Fb%22&limitToLast=2"),
        ("orderBy=\"a\"&equalTo=5", "orderBy=%22a%22&startAt=5&endAt=5"),
        ("orderBy=\"a\"&startAfter=5,\"k\"", "orderBy=%22a%22&startAfter=5%2C%22k%22"),
        ("orderBy=\"a\"&endBefore=null,\"k\"", "orderBy=%22a%22&endBefore=null%2C%22k%22"),
        ("orderBy=\"$value\"&startAt=\"x\"&endAt=true", "orderBy=%22%24value%22&startAt=%22x%22&endAt=true"),
        ("shallow=true&limitToFirst=3", "shallow=true&orderBy=%22%24key%22&limitToFirst=3"),
        ("x-http-method-override=PATCH", "x-http-method-override=PATCH"),
        ("eventIds=true", "eventIds=true"), ("eventIds=false", "eventIds=false"),
        ("orderBy=\"a\"&startAfter=5,\"[MAX_NAME]\"", "orderBy=%22a%22&startAfter=5%2C%22%5BMAX_NAME%5D%22"),
    ]) func texts(read: String, written: String) throws {
        let parameters = try parse(read)
        #expect(parameters.text == written)
        #expect(try parse(written) == parameters)
    }

    @Test func timesOfWrites() throws {
        for (milliseconds, name) in [
            (1, "tiny"), (1_000, "tiny"), (1_001, "small"), (10_000, "small"), (30_000, "medium"), (30_001, "large"),
            (60_000, "large"),
        ] as [(Int64, String)] {
            var parameters = RESTParameters()
            parameters.writeTimeout = milliseconds
            #expect(parameters.text == "writeSizeLimit=\(name)")
        }
        var longer = RESTParameters()
        longer.writeTimeout = 60_001
        #expect(longer.text == "", "no limit that there is gives so much time")
    }

    /// Returns a query that a URL may contain: the keys of its bounds are valid.
    private func query(_ generator: inout MessageGenerator) -> Query {
        while true {
            let query = generator.query()
            let keys = [query.start?.key, query.end?.key].compactMap(\.self)
            if keys.allSatisfy({ $0.isBoundSentinel || KeyRules.violation(in: $0) == nil }) { return query }
        }
    }

    @Test(arguments: [411, 412, 413, 414] as [UInt64]) func roundTrip(seed: UInt64) throws {
        var generator = MessageGenerator(seed: seed)
        for round in 0..<400 {
            var parameters = RESTParameters()
            if generator.oneIn(3) { parameters.namespace = generator.text() }
            if generator.oneIn(3) { parameters.auth = generator.text() }
            if generator.oneIn(5) { parameters.accessToken = "t&=+% é" }
            if generator.oneIn(5) { parameters.authOverride = Array("{\"uid\":\"a&b\"}".utf8) }
            parameters.print = [.normal, .pretty, .silent][generator.below(3)]
            parameters.isShallow = generator.oneIn(3)
            if generator.oneIn(3) { parameters.form = .export }
            if generator.oneIn(4) { parameters.callback = "a.b[0]" }
            if generator.oneIn(4) { parameters.download = generator.text() }
            if generator.oneIn(2) { parameters.timeout = Int64(1 + generator.below(900_000)) }
            if generator.oneIn(2) { parameters.writeTimeout = [1_000, 10_000, 30_000, 60_000][generator.below(4)] }
            if generator.oneIn(4) { parameters.methodOverride = "DELETE" }
            if generator.oneIn(4) { parameters.wantsEventIDs = true }
            if generator.oneIn(2) { parameters.query = query(&generator) }
            let read = try parse(parameters.text)
            #expect(read == parameters, "seed \(seed), round \(round): \(parameters.text)")
        }
    }
}
