import Testing
import Tree
import Wire

@testable import ClientCore

/// Checks writes that the server accepts before it answers the listens that were sent after them.
@Suite struct AcceptedWriteTests {
    private let location = Path([Key("a")])

    private func node(_ json: String) throws -> Node { try JSONParser.parse(json) }

    private func registration(_ id: UInt64, _ query: Query = Query()) -> Registration {
        Registration(id: RegistrationID(rawValue: id), spec: QuerySpec(path: location, query: query), kinds: .value)
    }

    private func write(_ tree: SyncTree, _ id: Int64, _ path: Path, _ json: String) throws {
        let content = PendingWrite.Content.overwrite(try node(json))
        _ = tree.apply(PendingWrite(id: WriteID(rawValue: id), path: path, content: content), estimate: content)
    }

    private func accept(_ tree: SyncTree, _ id: Int64) -> [Node] {
        tree.acknowledge(WriteID(rawValue: id), isRefused: false).events.map(\.node)
    }

    /// Adds a listener and sends its listen; returns the values delivered, and the tag.
    private func listen(_ tree: SyncTree, _ registration: Registration) -> (reported: [Node], tag: ListenTag?) {
        let effects = tree.add(registration)
        var found: ListenTag?
        for case .start(let spec, let tag) in effects.listens {
            found = tag
            tree.sent(spec, tag: tag)
        }
        return (effects.events.map(\.node), found)
    }

    /// Returns a client that has complete data of the path in its file.
    private func opened(_ json: String, _ store: MemoryStore = MemoryStore()) throws -> SyncTree {
        let before = SyncTree(cache: CacheManager(store: store))
        _ = before.add(registration(1))
        _ = before.applyServer(try node(json), at: location, tag: nil)
        _ = before.completeListen(QuerySpec(path: location), tag: nil)
        return SyncTree(cache: CacheManager(store: store))
    }

    @Test func theEarlierOfTwoWritesIsNotShown() throws {
        let tree = SyncTree()
        try write(tree, 1, location, "1")
        try write(tree, 2, location, "2")
        #expect(listen(tree, registration(1)).reported == [.int(2)])
        #expect(accept(tree, 1) == [])
        #expect(accept(tree, 2) == [])
        #expect(tree.localValue(at: location) == .int(2))
    }

    @Test(arguments: [
        ("", "0", "1", "1"), ("x", #"{"x":0,"y":1}"#, "1", #"{"x":1,"y":1}"#),
        ("x", #"{"x":0,"y":1}"#, "null", #"{"y":1}"#), ("x/z", #"{"x":{"z":1}}"#, "2", #"{"x":{"z":2}}"#),
        (".priority", #"{"x":0}"#, "2", #"{"x":0,".priority":2}"#),
    ])
    func theFilesValueIsNotShown(path: String, kept: String, written: String, shown: String) throws {
        let tree = try opened(kept)
        try write(tree, 1, location.appending(Path(path.split(separator: "/").map { Key(String($0)) })), written)
        #expect(listen(tree, registration(2)).reported == [try node(shown)])
        #expect(accept(tree, 1) == [])
        #expect(tree.localValue(at: location) == (try node(shown)))
    }

    @Test func aWriteAboveReplacesTheFilesValue() throws {
        let tree = try opened("0")
        try write(tree, 1, .root, #"{"a":1,"b":2}"#)
        #expect(listen(tree, registration(2)).reported == [.int(1)])
        #expect(accept(tree, 1) == [])
        #expect(tree.localValue(at: location) == .int(1))
    }

    @Test func aFilteredQueryKeepsItsChildren() throws {
        let query = Query(index: .key, limit: .first(2))
        let tree = try opened(#"{"x":0,"y":1}"#)
        try write(tree, 1, location.appending(Key("x")), "1")
        try write(tree, 2, location.appending(Key("w")), "5")
        try write(tree, 3, location.appending(Key("w")), "null")
        let (reported, tag) = listen(tree, registration(2, query))
        try #require(tag != nil)
        let shown = try node(#"{"x":1,"y":1}"#)
        #expect(reported == [shown])
        for id in 1...3 as ClosedRange<Int64> { #expect(accept(tree, id) == []) }
        // Another client has since restored the value in the file, so the server has it, too.
        let kept = try node(#"{"x":0,"y":1}"#)
        let spec = QuerySpec(path: location, query: query)
        #expect(tree.completeListen(spec, tag: tag).events.map(\.node) == [kept])
    }

    /// Another client has restored the former value: the server answers that the client has it.
    @Test func theAnswerIsAboutWhatTheClientHadWhenItAsked() throws {
        let tree = try opened("0")
        try write(tree, 1, location, "1")
        _ = listen(tree, registration(2))
        #expect(accept(tree, 1) == [])
        #expect(tree.completeListen(QuerySpec(path: location), tag: nil).events.map(\.node) == [.int(0)])
    }

    @Test func newsGoOutFromWhatTheClientHadWhenItAsked() throws {
        let tree = try opened(#"{"x":0,"y":1}"#)
        try write(tree, 1, location.appending(Key("x")), "1")
        _ = listen(tree, registration(2))
        #expect(accept(tree, 1) == [])
        #expect(tree.askedValue(at: location) == (try node(#"{"x":0,"y":1}"#)))
        let reported = tree.applyServer([Change(path: Path([Key("y")]), value: .int(2))], at: location, tag: nil)
        #expect(reported.events.map(\.node) == [try node(#"{"x":0,"y":2}"#)])
    }

    /// A listen to a larger path replaces one that was answered: data still sent for the former is dropped.
    @Test func aListenToMoreReceivesAcceptedWritesLater() throws {
        let tree = SyncTree()
        _ = listen(tree, registration(1))
        _ = tree.applyServer(.int(0), at: location, tag: nil)
        _ = tree.completeListen(QuerySpec(path: location), tag: nil)
        try write(tree, 1, location, "1")
        _ = listen(tree, Registration(id: RegistrationID(rawValue: 2), spec: QuerySpec(path: .root), kinds: .value))
        #expect(accept(tree, 1) == [])
        #expect(tree.localValue(at: location) == .int(1))
    }

    /// Data that the server sends is newer than the writes that it accepts from this client.
    @Test func dataOfAnAnsweredListenStays() throws {
        let tree = SyncTree()
        _ = listen(tree, registration(1))
        _ = tree.applyServer(.int(0), at: location, tag: nil)
        _ = tree.completeListen(QuerySpec(path: location), tag: nil)
        try write(tree, 1, location, "1")
        _ = tree.applyServer(.int(1), at: location, tag: nil)
        _ = tree.applyServer(.int(7), at: location, tag: nil)
        #expect(accept(tree, 1) == [.int(7)])
    }

    /// The server has begun to send the data of a path with a listener, and has not sent all of it.
    @Test func aPartThatTheServerHasSentStays() throws {
        let tree = SyncTree()
        try write(tree, 1, location, #"{"x":1,"y":1}"#)
        _ = listen(tree, registration(1))
        _ = tree.applyServer(.int(7), at: location.appending(Key("x")), tag: nil)
        let reported = accept(tree, 1)
        #expect(reported == [try node(#"{"x":7,"y":1}"#)])
        let reportedNext = tree.applyServer(try node(#"{"x":7,"y":2}"#), at: location, tag: nil).events.map(\.node)
        #expect(reportedNext == [try node(#"{"x":7,"y":2}"#)])
    }

    // MARK: The file

    private func kept(_ store: MemoryStore) -> Node {
        CacheManager(store: store).cached(QuerySpec(path: location)).node
    }

    @Test func anAcceptedWriteIsInTheFileBeforeTheAnswer() throws {
        let store = MemoryStore()
        let tree = try opened("0", store)
        try write(tree, 1, location, "1")
        _ = listen(tree, registration(2))
        _ = accept(tree, 1)
        #expect(kept(store) == .int(1))
        // The last listener is removed, and another one is added.
        _ = tree.remove(registration(2))
        #expect(listen(tree, registration(3)).reported == [.int(1)])
    }

    @Test(arguments: [true, false]) func theFileHasWhatTheServerAnswers(isSame: Bool) throws {
        let store = MemoryStore()
        let before = try node(#"{"x":0,"y":1}"#)
        let tree = try opened(#"{"x":0,"y":1}"#, store)
        try write(tree, 1, location.appending(Key("x")), "1")
        _ = listen(tree, registration(2))
        _ = accept(tree, 1)
        #expect(kept(store) == (try node(#"{"x":1,"y":1}"#)))
        if isSame {
            _ = tree.completeListen(QuerySpec(path: location), tag: nil)
            #expect(kept(store) == before)
        } else {
            _ = tree.applyServer([Change(path: Path([Key("y")]), value: .int(2))], at: location, tag: nil)
            #expect(kept(store) == (try node(#"{"x":0,"y":2}"#)))
        }
    }

    /// Another listen received more changes than the data on which the answered listen is based.
    @Test func dataOfAQueryStaysInTheFile() throws {
        let store = MemoryStore()
        let tree = try opened(#"{"x":0}"#, store)
        try write(tree, 1, location.appending(Key("x")), "1")
        let inner = Registration(
            id: RegistrationID(rawValue: 2), spec: QuerySpec(path: location.appending(Key("x"))), kinds: .value)
        let (_, tag) = listen(tree, registration(3, Query(index: .key, limit: .first(2))))
        try #require(tag != nil)
        _ = listen(tree, inner)
        _ = accept(tree, 1)
        _ = tree.applyServer(try node(#"{"x":5}"#), at: location, tag: tag)
        _ = tree.completeListen(registration(3, Query(index: .key, limit: .first(2))).spec, tag: tag)
        #expect(kept(store) == (try node(#"{"x":5}"#)))
        _ = tree.applyServer(.int(5), at: inner.spec.path, tag: nil)
        _ = tree.completeListen(inner.spec, tag: nil)
        #expect(kept(store) == (try node(#"{"x":5}"#)))
    }

    // MARK: Resuming after an entry

    /// The server sends each entry separately, including the client's own.
    @Test(arguments: [true, false]) func whatWasMissedIsTakenTogether(isWhole: Bool) throws {
        let store = MemoryStore()
        let tree = try opened(#"{"x":0,"y":0}"#, store)
        try write(tree, 1, location.appending(Key("x")), "1")
        _ = tree.add(registration(2))
        tree.sent(QuerySpec(path: location), tag: nil, resumes: true)
        _ = accept(tree, 1)
        #expect(tree.applyServer(.int(9), at: location.appending(Key("y")), tag: nil).events.isEmpty)
        guard isWhole else {
            // The connection is lost in between.
            #expect(tree.localValue(at: location) == (try node(#"{"x":1,"y":0}"#)))
            #expect(kept(store) == (try node(#"{"x":1,"y":0}"#)))
            return
        }
        #expect(tree.applyServer(.int(1), at: location.appending(Key("x")), tag: nil).events.isEmpty)
        let reported = tree.completeListen(QuerySpec(path: location), tag: nil).events.map(\.node)
        #expect(reported == [try node(#"{"x":1,"y":9}"#)])
        #expect(kept(store) == (try node(#"{"x":1,"y":9}"#)))
        #expect(tree.applyServer(.int(8), at: location.appending(Key("y")), tag: nil).events.count == 1)
    }

    @Test func whatAQueryMissedIsTakenTogether() throws {
        let query = Query(index: .key, limit: .first(5))
        let spec = QuerySpec(path: location, query: query)
        let tree = try opened(#"{"x":0,"y":0}"#)
        try write(tree, 1, location.appending(Key("x")), "1")
        let (_, tag) = listen(tree, registration(2, query))
        tree.sent(spec, tag: tag, resumes: true)
        _ = accept(tree, 1)
        #expect(tree.applyServer(.int(9), at: location.appending(Key("y")), tag: tag).events.isEmpty)
        // Data of a path outside the listen is ignored.
        for elsewhere in [Path.root, Path([Key("b"), Key("x")])] {
            #expect(tree.applyServer(.int(5), at: elsewhere, tag: tag).events.isEmpty)
        }
        #expect(tree.applyServer(.int(1), at: location.appending(Key("x")), tag: tag).events.isEmpty)
        #expect(tree.completeListen(spec, tag: tag).events.map(\.node) == [try node(#"{"x":1,"y":9}"#)])
    }

    // MARK: Data that answers nothing

    /// The data assumed when the connection ends answers no listen.
    @Test func whatTheClientSupposesIsNoAnswer() throws {
        let store = MemoryStore()
        let tree = try opened(#"{"x":0}"#, store)
        try write(tree, 1, location.appending(Key("x")), "1")
        _ = listen(tree, registration(2))
        _ = accept(tree, 1)
        let shown = try node(#"{"x":1,"online":false}"#)
        #expect(tree.suppose(.bool(false), at: location.appending(Key("online"))).events.map(\.node) == [shown])
        #expect(kept(store) == shown)
    }

    /// A query receives writes of other clients before an answer arrives late; the query selects from the data that a
    /// get has brought.
    @Test func aGetBesideAQueryTakesNothingBack() throws {
        let query = Query(index: .key, limit: .first(2))
        let tree = SyncTree()
        let (_, tag) = listen(tree, registration(1, query))
        _ = tree.applyServer(try node(#"{"x":0,"y":1}"#), at: location, tag: tag)
        _ = tree.completeListen(QuerySpec(path: location, query: query), tag: tag)
        try write(tree, 1, location.appending(Key("x")), "1")
        _ = tree.applyServer(.int(1), at: location.appending(Key("x")), tag: tag)
        _ = tree.applyServer(.int(7), at: location.appending(Key("x")), tag: tag)
        _ = tree.applyAnswer(try node(#"{"x":7,"y":1,"z":3}"#), of: QuerySpec(path: location), seq: nil)
        #expect(accept(tree, 1) == [try node(#"{"x":7,"y":1}"#)])
    }

    // MARK: Cost

    /// A write visits only the listens that it concerns, and leaves no query in the file.
    @Test func acceptedWritesLeaveNoQueriesInTheFile() throws {
        let store = MemoryStore()
        let tree = SyncTree(cache: CacheManager(store: store))
        _ = listen(tree, registration(1))
        for number in 1...50 as ClosedRange<Int64> {
            try write(tree, number, location.appending(Key("k\(number)")), "1")
            _ = accept(tree, number)
        }
        #expect(store.trackedQueries().count == 1)
    }

    @Test func aQueryKeepsItsNewChildWhenItIsAskedForAgain() throws {
        let query = Query(index: .key, limit: .first(3))
        let tree = try opened(#"{"x":0}"#)
        try write(tree, 1, location.appending(Key("w")), "1")
        let shown = try node(#"{"w":1,"x":0}"#)
        #expect(listen(tree, registration(2, query)).reported == [shown])
        _ = accept(tree, 1)
        _ = tree.remove(registration(2, query))
        #expect(listen(tree, registration(3, query)).reported == [shown])
    }
}
