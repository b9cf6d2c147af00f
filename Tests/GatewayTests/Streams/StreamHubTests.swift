import Placement
import Rules
import Runtime
import TestSupport
import Testing
import Tree
import Wire

@testable import Engine
@testable import Gateway
@testable import HTTPServer

/// Tests of a loop's streams: opening, keep-alive, access checks and ends.
@Suite struct StreamHubTests {
    /// A hub on a loop, and a namespace that the test changes.
    private final class Bench {
        let test: TestLoop
        let namespace: TestNamespace
        let groups = ListenerGroups()
        let hub: LoopBound<StreamHub>
        let metrics: GatewayMetrics
        let authenticator: Authenticator

        init(
            _ test: TestLoop, _ engine: Engine, rules: RuleSet = .allowAll, root: Node = .null, seq: Int64 = 0,
            _ change: (inout GatewaySettings) -> Void
        ) throws {
            self.test = test
            namespace = TestNamespace(root: root, seq: seq, rules: rules)
            var credentials = GatewayCredentials()
            credentials.acceptsOwner = true
            credentials.administratorSecrets = [Secret(Array("a secret of an administrator, long".utf8))]
            authenticator = Authenticator(credentials)
            let (groups, authenticator) = (groups, authenticator)
            let services = test.services(change)
            metrics = services.metrics
            hub = LoopBound(try test.on { StreamHub(services, Databases(primary: engine), groups, authenticator) })
        }

        func open(
            _ path: String = "a", lastEventID: String? = nil, as identity: Identity = .anonymous(isLoopback: true),
            query: Query? = nil, hasIDs: Bool = true, on client: WebClient? = nil
        ) throws -> WebClient {
            let client = try client ?? test.client()
            let exchange = try test.exchange(client).exchange
            let (hub, namespace) = (hub, namespace)
            let request = StreamRequest(
                path: Path(splitting: path), query: query, form: .plain, identity: identity, hasIDs: hasIDs,
                lastEventID: lastEventID)
            try test.on { hub.content.open(request, namespace.live, exchange.content) }
            return client
        }

        /// Opens a stream, and reads its head and its first value.
        func live(_ path: String = "a", as identity: Identity = .anonymous(isLoopback: true)) throws -> WebClient {
            let client = try open(path, as: identity)
            #expect(try client.head().status == 200)
            #expect(try client.event().name == "put")
            return client
        }

        func id(_ seq: Int64, _ path: String = "a") -> String {
            EventIDs(namespace.live, Path(splitting: path), namespace.snapshot.rules).id(
                seq, TestNamespace.batch(seq))
        }
    }

    private func withHub(
        rules: RuleSet = .allowAll, root: Node = .null, seq: Int64 = 0,
        _ change: (inout GatewaySettings) -> Void = { _ in }, _ body: (Bench) throws -> Void
    ) throws {
        try withEngines(1) { _, engines in
            try withLoop { test in
                try body(try Bench(test, engines[0].engine, rules: rules, root: root, seq: seq, change))
            }
        }
    }

    private static func rules(_ read: String) throws -> RuleSet {
        try RuleSet(json: Array("{\"rules\":{\".read\":\"\(read)\"}}".utf8))
    }

    private static func user(_ uid: String, until expiresAt: Int64? = nil) -> Identity {
        Identity(AuthContext(auth: Node(children: [(Key("uid"), .string(uid))])), expiresAt: expiresAt)
    }

    // MARK: Opening

    @Test func theHeadThenTheValue() throws {
        try withHub(root: try JSONParser.parse("{\"a\":{\"b\":1}}"), seq: 7) { bench in
            let client = try bench.open()
            let (status, headers) = try client.head()
            #expect(status == 200)
            #expect(headers["content-type"] == "text/event-stream; charset=utf-8")
            #expect(headers["cache-control"] == "no-cache")
            #expect(headers["x-accel-buffering"] == "no")
            #expect(headers["x-pathmirror-seq"] == "7")
            let event = try client.event()
            #expect(event.name == "put" && event.id == 7)
            #expect(event.data == "{\"path\":\"/\",\"data\":{\"b\":1}}")
            #expect(bench.metrics.streams.current == 1 && bench.metrics.streamsOpened.current == 1)
        }
    }

    /// Checks that streams with and without ids receive the same changes.
    @Test func idsAreSentOnRequest() throws {
        try withHub(root: try JSONParser.parse("{\"a\":1}"), seq: 4) { bench in
            let (with, without) = (try bench.open(), try bench.open(hasIDs: false))
            for client in [with, without] { _ = try client.head() }
            #expect(try with.read(through: "\n\n").contains("\nid: 4-"))
            #expect(try without.read(through: "\n\n") == "event: put\ndata: {\"path\":\"/\",\"data\":1}\n\n")
            bench.namespace.commit((path: "a", value: .int(2)))
            #expect(try with.event().id == 5)
            #expect(try without.read(through: "\n\n") == "event: put\ndata: {\"path\":\"/\",\"data\":2}\n\n")
        }
    }

    @Test func changesFollow() throws {
        try withHub { bench in
            let (one, two) = (try bench.live(), try bench.live())
            bench.namespace.commit((path: "a/b", value: .int(1)), (path: "a/c", value: .int(2)))
            bench.namespace.commit((path: "x", value: .int(3)))
            bench.namespace.commit((path: "a", value: .null))
            for client in [one, two] {
                #expect(try client.event().data == "{\"path\":\"/b\",\"data\":1}")
                #expect(try client.event().data == "{\"path\":\"/c\",\"data\":2}")
                let last = try client.event()
                #expect(last.id == 4 && last.data == "{\"path\":\"/\",\"data\":null}")
            }
            #expect(bench.metrics.streamEvents.current == 6)
            #expect(bench.groups.count == 1)
        }
    }

    /// Checks that changes that happen while a worker encodes a large value follow that value.
    @Test func largeValuesKeepTheOrder() throws {
        let wide = Node(children: (0..<500).map { (Key("k\($0)"), Node.int(Int64($0))) })
        try withHub(root: Node(children: [(Key("a"), wide)]), seq: 1) {
            $0.heavyRows = 10
        } _: { bench in
            let client = try bench.open()
            bench.namespace.commit((path: "a/new", value: .int(1)))
            #expect(try client.head().status == 200)
            let first = try client.event()
            #expect(first.id == 1 && first.data.utf8.count > 4_000)
            let second = try client.event()
            #expect(second.id == 2 && second.data == "{\"path\":\"/new\",\"data\":1}")
        }
    }

    @Test func thereAreOnlySoManyStreams() throws {
        try withHub {
            $0.maxStreams = 1
        } _: { bench in
            let first = try bench.live()
            let refused = try bench.open()
            let answer = try refused.answer()
            #expect(answer.status == 503)
            #expect(answer.headers["retry-after"] == "5")
            first.shutDown()
            #expect(eventually { bench.metrics.streams.current == 0 })
            _ = try bench.live()
        }
    }

    @Test func clientsThatGoAwayAreForgotten() throws {
        try withHub { bench in
            let (one, two) = (try bench.live(), try bench.live())
            one.shutDown()
            #expect(eventually { bench.metrics.streams.current == 1 })
            #expect(bench.groups.count == 1)
            two.shutDown()
            #expect(eventually { bench.metrics.streams.current == 0 })
            #expect(bench.groups.count == 0)
            #expect(bench.namespace.live.listenerCount == 0)
        }
    }

    // MARK: Resuming

    @Test func nothingIsRepeatedWhereNothingHappened() throws {
        try withHub(root: try JSONParser.parse("{\"a\":1}"), seq: 5) { bench in
            let client = try bench.open(lastEventID: bench.id(5))
            #expect(try client.head().status == 200)
            bench.namespace.commit((path: "a", value: .int(2)))
            let event = try client.event()
            #expect(event.id == 6 && event.data == "{\"path\":\"/\",\"data\":2}")
            #expect(bench.metrics.streamsResumed.current == 1 && bench.metrics.resumesFresh.current == 0)
        }
    }

    /// Checks that a stream starts with a fresh value if the entry with the given seq belongs to another history.
    @Test func otherHistoriesStartAgain() throws {
        try withHub(root: try JSONParser.parse("{\"a\":1}"), seq: 5) { bench in
            let ids = EventIDs(bench.namespace.live, Path(splitting: "a"), bench.namespace.snapshot.rules)
            let client = try bench.open(lastEventID: ids.id(5, Array("another batch".utf8)))
            #expect(try client.head().status == 200)
            #expect(try client.event().data == "{\"path\":\"/\",\"data\":1}")
            #expect(bench.metrics.streamsResumed.current == 0 && bench.metrics.resumesFresh.current == 1)
        }
    }

    /// Checks that an id before the first entry contains no part of the namespace's key, which stands for the batch
    /// there.
    @Test func idsBeforeTheFirstEntryDoNotContainTheKey() throws {
        try withHub(root: .null, seq: 0) { bench in
            let ids = EventIDs(bench.namespace.live, Path(splitting: "a"), bench.namespace.snapshot.rules)
            #expect(ids.id(0, Array("one key".utf8)) == ids.id(0, Array("another key".utf8)))
            #expect(ids.id(1, Array("one batch".utf8)) != ids.id(1, Array("another batch".utf8)))
        }
    }

    @Test func idsTooFarBackStartAgain() throws {
        try withHub(root: try JSONParser.parse("{\"a\":1}"), seq: 50) {
            $0.maxResumeEntries = 10
        } _: { bench in
            let client = try bench.open(lastEventID: bench.id(39))
            #expect(try client.head().status == 200)
            #expect(try client.event().id == 50)
        }
    }

    /// Checks that a client ahead of this gateway waits until the gateway has caught up, and receives nothing twice.
    @Test func clientsAheadWait() throws {
        try withHub(root: try JSONParser.parse("{\"a\":1}"), seq: 5) { bench in
            let client = try bench.open(lastEventID: bench.id(6))
            #expect(try client.head().status == 200)
            bench.namespace.commit((path: "a", value: .int(2)))
            bench.namespace.commit((path: "a", value: .int(3)))
            let event = try client.event()
            #expect(event.id == 7)
        }
    }

    @Test func clientsAheadWaitOnlySoLong() throws {
        try withHub(root: try JSONParser.parse("{\"a\":1}"), seq: 5) {
            $0.minSeqWaitMilliseconds = 20
        } _: { bench in
            let client = try bench.open(lastEventID: bench.id(6))
            #expect(try client.head().status == 200)
            let note = try client.read(through: "\n")
            #expect(note == ": this gateway has not reached the named event: the following events may repeat\n")
            #expect(try client.event().id == 5)
        }
    }

    /// Checks that a client that loses its read permission while it waits receives a cancellation and not the value.
    @Test func waitingClientsAreJudgedAgain() throws {
        try withHub(root: try JSONParser.parse("{\"a\":1}"), seq: 5) { bench in
            let client = try bench.open(lastEventID: bench.id(6))
            #expect(try client.head().status == 200)
            try bench.namespace.adopt("{\"rules\":{}}")
            // The commit ends the wait, which does not time out however slow the machine is.
            bench.namespace.commit((path: "a", value: .int(2)))
            #expect(try client.event().name == "cancel")
            #expect(client.isAtEnd())
        }
    }

    // MARK: Readers

    @Test func newRulesEndStreams() throws {
        try withHub { bench in
            let (user, anonymousClient) = (try bench.live(as: Self.user("u")), try bench.live())
            try bench.namespace.adopt("{\"rules\":{\".read\":\"auth != null\"}}")
            #expect(try anonymousClient.event().name == "cancel")
            #expect(anonymousClient.isAtEnd())
            bench.namespace.commit((path: "a", value: .int(1)))
            #expect(try user.event().data == "{\"path\":\"/\",\"data\":1}")
        }
    }

    /// Checks that a data change elsewhere that denies a reader ends the stream: before the next event is sent, or by
    /// the sweep.
    @Test func dataElsewhereEndsStreams() throws {
        let root = try JSONParser.parse("{\"open\":true,\"a\":1}")
        try withHub(rules: try Self.rules("root.child('open').val() == true"), root: root, seq: 1) { bench in
            let (one, two) = (try bench.live(), try bench.live("b"))
            bench.namespace.commit((path: "open", value: .bool(false)), (path: "a", value: .string("secret")))
            #expect(try one.event().name == "cancel")
            #expect(one.isAtEnd())
            let isDone = Condition(false)
            try bench.test.on { bench.hub.content.sweep { isDone.broadcast { $0 = true } } }
            #expect(isDone.wait(milliseconds: 20_000) { $0 ? true : nil } == true)
            #expect(try two.event().name == "cancel")
        }
    }

    // MARK: Credentials

    @Test func loginsEnd() throws {
        try withHub { bench in
            let (short, long, none) = (
                try bench.live(as: Self.user("u", until: 1_000)), try bench.live(as: Self.user("u", until: 2_000)),
                try bench.live()
            )
            try bench.test.on { bench.hub.content.endInvalidIdentities(now: 999) }
            try bench.test.on { bench.hub.content.endInvalidIdentities(now: 1_000) }
            let revoked = try short.event()
            #expect(revoked.name == "auth_revoked" && revoked.data == "credential is no longer valid")
            #expect(short.isAtEnd())
            bench.namespace.commit((path: "a", value: .int(1)))
            for client in [long, none] { #expect(try client.event().data == "{\"path\":\"/\",\"data\":1}") }
            try bench.test.on { bench.hub.content.endInvalidIdentities(now: 2_000) }
            #expect(try long.event().name == "auth_revoked")
        }
    }

    @Test func secretsThatAreTakenAwayEndStreams() throws {
        try withHub { bench in
            let credentials = Authenticator.Credentials(
                credential: "a secret of an administrator, long", namespace: "test", isLoopback: true)
            guard case .now(.success(let admin)) = bench.authenticator.authenticate(credentials) else {
                Issue.record("the secret is not accepted")
                return
            }
            let (client, other) = (try bench.live(as: admin), try bench.live())
            bench.authenticator.secrets.replace(administrators: [], databases: [:])
            try bench.test.on { bench.hub.content.endInvalidIdentities() }
            #expect(try client.event().name == "auth_revoked")
            bench.namespace.commit((path: "a", value: .int(1)))
            #expect(try other.event().id == 1)
        }
    }

    // MARK: Time and the end

    @Test func quietStreamsAreKeptAlive() throws {
        try withHub { bench in
            let client = try bench.live()
            try bench.test.on {
                bench.hub.content.sendKeepAlives()
                bench.hub.content.sendKeepAlives()
            }
            for _ in 0..<2 {
                let event = try client.event()
                #expect(event.name == "keep-alive" && event.data == "null")
            }
        }
    }

    @Test func drainingClosesStreams() throws {
        try withHub { bench in
            let clients = [try bench.live(), try bench.live("b")]
            try bench.test.on { bench.hub.content.drain() }
            for client in clients { #expect(client.isAtEnd()) }
            #expect(eventually { bench.metrics.streams.current == 0 })
        }
    }

    @Test func namespacesThatEndCloseStreams() throws {
        try withHub { bench in
            let client = try bench.live()
            bench.namespace.end()
            #expect(client.isAtEnd())
        }
    }

    @Test func resetsResendTheValue() throws {
        try withHub { bench in
            let client = try bench.live()
            bench.namespace.reset(to: try JSONParser.parse("{\"a\":9}"), seq: 40)
            let event = try client.event()
            #expect(event.id == 40 && event.data == "{\"path\":\"/\",\"data\":9}")
        }
    }
}
