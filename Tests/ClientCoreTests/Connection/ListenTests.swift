import ClientCore
import Testing
import Tree
import Wire

/// Checks that listens are sent, sent again, answered, withdrawn and revoked.
@Suite struct ListenTests {
    private static let last = Query(index: .child(Path(splitting: "n")), limit: .last(2))
    private static let tag = ListenTag(rawValue: 7)

    @Test func listensCarryTheirHashes() throws {
        var harness = MachineHarness()
        harness.connect()
        harness.hash = "abc="
        harness.compound = CompoundHash(posts: [Path(splitting: "x")], hashes: ["h1", ""])
        harness { $0.listen(spec("/a"), tag: nil, now: $1) }
        harness.compound = nil
        harness { $0.listen(spec("/b", Self.last), tag: Self.tag, now: $1) }
        #expect(
            harness.takeTexts() == [
                "{\"t\":\"d\",\"d\":{\"r\":1,\"a\":\"q\",\"b\":{\"p\":\"/a\",\"h\":\"abc=\",\"ch\":{\"hs\":[\"h1\",\"\"],\"ps\":[\"x\"]}}}}",
                "{\"t\":\"d\",\"d\":{\"r\":2,\"a\":\"q\",\"b\":{\"p\":\"/b\",\"q\":{\"l\":2,\"vf\":\"r\",\"i\":\"n\"},\"t\":7,\"h\":\"abc=\"}}}",
            ])
        harness.answer(1, "ok", "{}")
        harness.answer(2, "ok", "{\"w\":[\"no_index\"]}")
        #expect(
            harness.takeReports() == [
                .listenCompleted(spec("/a"), tag: nil, lacksIndex: false),
                .listenCompleted(spec("/b", Self.last), tag: Self.tag, lacksIndex: true),
            ])
        harness { $0.unlisten(spec("/b", Self.last), tag: Self.tag, now: $1) }
        #expect(
            harness.takeTexts() == [
                "{\"t\":\"d\",\"d\":{\"r\":3,\"a\":\"n\",\"b\":{\"p\":\"/b\",\"q\":{\"l\":2,\"vf\":\"r\",\"i\":\"n\"},\"t\":7}}}"
            ])
    }

    @Test func dataIsReportedWithKnownTags() {
        var harness = MachineHarness()
        harness.connect()
        harness { $0.listen(spec("/b", Self.last), tag: Self.tag, now: $1) }
        harness { $0.listen(spec("/b"), tag: nil, now: $1) }
        let event = ChangeEvent.put(Path(splitting: "b"), .int(1))
        harness.receive(.push(.change(event, tag: 7)))
        harness.receive(.push(.change(event, tag: 8)))
        harness.receive(.push(.change(event, tag: nil)))
        harness.receive(
            "{\"t\":\"d\",\"d\":{\"a\":\"rm\",\"b\":{\"p\":\"b\",\"d\":[{\"s\":\"a\",\"m\":{\"c\":1}}],\"t\":7}}}")
        let reports = harness.takeReports()
        #expect(reports.prefix(2) == [.changed(event, tag: Self.tag), .changed(event, tag: nil)])
        guard case .ranges(let path, let ranges, Self.tag, nil)? = reports.last else {
            Issue.record("no ranges")
            return
        }
        #expect(path == Path(splitting: "b"))
        #expect(ranges.count == 1)
    }

    /// Late data of a stopped listen is older than data that the server sent to an overlapping query, and is dropped.
    @Test func dataOfAStoppedListenIsDropped() {
        var harness = MachineHarness()
        harness.connect()
        harness { $0.listen(spec("/a/b"), tag: nil, now: $1) }
        harness { $0.listen(spec("/a", Self.last), tag: Self.tag, now: $1) }
        let event = ChangeEvent.put(Path(splitting: "a/b/c"), .int(1))
        harness.receive(.push(.change(event, tag: nil)))
        #expect(harness.takeReports() == [.changed(event, tag: nil)])
        harness { $0.unlisten(spec("/a/b"), tag: nil, now: $1) }
        harness.receive(.push(.change(event, tag: nil)))
        harness.receive(.push(.change(.patch(Path(splitting: "a"), []), tag: nil)))
        #expect(harness.takeReports() == [])
        // A path, and a path above it, may be listened to again. Until the server has processed the earlier requests,
        // the data it sends belongs to the stopped listen: if the server then answers that the client already has the
        // new listen's data, older data must not have been applied.
        harness { $0.listen(spec("/a"), tag: nil, now: $1) }
        harness.receive(.push(.change(event, tag: nil)))
        #expect(harness.takeReports() == [])
        harness.answer(3)
        harness.receive(.push(.change(event, tag: nil)))
        #expect(harness.takeReports() == [.changed(event, tag: nil)])
    }

    @Test func aRefusedListenIsGone() {
        var harness = MachineHarness()
        harness.connect()
        harness { $0.listen(spec("/a"), tag: nil, now: $1) }
        harness.answer(1, "permission_denied", "\"Permission denied\"")
        #expect(
            harness.takeReports() == [
                .listenRefused(
                    spec("/a"), tag: nil,
                    RequestFailure(status: .permissionDenied, explanation: "Permission denied"))
            ])
        harness { $0.goOffline(now: $1) }
        _ = harness.takeRequests()
        harness.connect()
        #expect(harness.takeRequests().isEmpty)
    }

    @Test func revocationsMeanOneQuery() {
        var harness = MachineHarness()
        harness.connect()
        harness { $0.listen(spec("/a"), tag: nil, now: $1) }
        harness { $0.listen(spec("/a", Self.last), tag: Self.tag, now: $1) }
        harness.receive(
            "{\"t\":\"d\",\"d\":{\"a\":\"c\",\"b\":{\"p\":\"a\",\"q\":[{\"l\":2,\"vf\":\"r\",\"i\":\"n\"}]}}}")
        harness.receive(.push(.listenRevoked(Path(splitting: "a"), queries: nil)))
        let refused = harness.takeReports().compactMap { report -> ListenTag?? in
            if case .listenRefused(_, let tag, _) = report { .some(tag) } else { nil }
        }
        #expect(refused == [Self.tag, nil])
    }

    @Test func answersForWhatIsListenedToNoMoreAreIgnored() {
        var harness = MachineHarness()
        harness.connect()
        harness { $0.listen(spec("/a"), tag: nil, now: $1) }
        harness { $0.unlisten(spec("/a"), tag: nil, now: $1) }
        harness { $0.listen(spec("/a"), tag: nil, now: $1) }
        harness.answer(1, "permission_denied", "\"no\"")
        harness.answer(2)
        harness.answer(3, "ok", "{}")
        #expect(harness.takeReports() == [.listenCompleted(spec("/a"), tag: nil, lacksIndex: false)])
    }

    @Test func listensComeBackInOrderBeforeWrites() {
        var harness = MachineHarness()
        harness { $0.write(write(1), now: $1) }
        for path in ["/c", "/a", "/b"] { harness { $0.listen(spec(path), tag: nil, now: $1) } }
        harness { $0.goOnline(now: $1) }
        harness.greet()
        for _ in 0..<2 {
            let paths = harness.takeRequests().map { request -> String in
                if case .listen(let target, _, _, _) = request.action { target.path.description } else { "write" }
            }
            #expect(paths == ["/c", "/a", "/b", "write"])
            harness.receive(.closed(.broken("")))
            harness.passTime(to: harness.machine.deadline ?? 0)
            harness.greet()
        }
    }
}
