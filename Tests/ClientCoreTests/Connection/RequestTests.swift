import ClientCore
import Testing
import Tree
import Wire

/// Checks that requests reach the server in order and are answered once.
@Suite struct RequestTests {
    @Test func writesGoOutInOrderAndAreAnswered() {
        var harness = MachineHarness()
        harness.connect()
        harness { $0.write(write(1, "/a", .int(1)), now: $1) }
        harness { machine, now in
            machine.write(
                PendingWrite(
                    id: WriteID(rawValue: 2), path: Path(splitting: "/b"),
                    content: .merge([Change(path: Path(splitting: "c/d"), value: .string("x"))])), now: now)
        }
        harness { $0.write(write(3, "/a", .int(2)), hash: "abc", now: $1) }
        #expect(
            harness.takeTexts() == [
                "{\"t\":\"d\",\"d\":{\"r\":1,\"a\":\"p\",\"b\":{\"p\":\"/a\",\"d\":1}}}",
                "{\"t\":\"d\",\"d\":{\"r\":2,\"a\":\"m\",\"b\":{\"p\":\"/b\",\"d\":{\"c/d\":\"x\"}}}}",
                "{\"t\":\"d\",\"d\":{\"r\":3,\"a\":\"p\",\"b\":{\"p\":\"/a\",\"d\":2,\"h\":\"abc\"}}}",
            ])
        harness.answer(1)
        harness.answer(2, "permission_denied", "\"Permission denied\"")
        harness.answer(3, "datastale", "\"\"")
        harness.answer(3)
        #expect(
            harness.takeReports().prefix(3) == [
                .writeAnswered(WriteID(rawValue: 1), .done),
                .writeAnswered(
                    WriteID(rawValue: 2),
                    .refused(RequestFailure(status: .permissionDenied, explanation: "Permission denied"))),
                .writeAnswered(WriteID(rawValue: 3), .refused(RequestFailure(status: .dataStale))),
            ])
    }

    @Test func afterACutWritesGoAgainAndTransactionsAreLost() {
        var harness = MachineHarness()
        harness.connect()
        for id in 1...3 { harness { $0.write(write(Int64(id)), hash: id == 2 ? "h" : nil, now: $1) } }
        harness.answer(1)
        _ = harness.takeReports()
        harness.receive(.closed(.broken("cut")))
        #expect(
            harness.takeReports().prefix(2) == [
                .writeAnswered(WriteID(rawValue: 2), .lost), .disconnected(reason: "the connection broke: cut"),
            ])
        harness { $0.write(write(4), hash: "h", now: $1) }
        harness.passTime(to: harness.machine.deadline ?? 0)
        _ = harness.takeRequests()
        harness.greet()
        let hashes = harness.takeRequests().map { request -> String? in
            if case .put(_, _, let hash, _) = request.action { hash } else { "not a put" }
        }
        #expect(hashes == [nil, "h"], "3 again, and 4, which nobody has sent before")
    }

    /// A repeated write is recognized by its name. Names are sent only if the client uses the gateway's extension.
    @Test(arguments: [false, true]) func writesKeepTheirNames(isExtended: Bool) {
        var harness = MachineHarness()
        harness { $0.goOnline(now: $1) }
        harness.greet(isExtended: isExtended)
        for id in 1...3 as ClosedRange<Int64> {
            let write = PendingWrite(
                id: WriteID(rawValue: id), path: Path(splitting: "a"), content: .overwrite(.int(id)),
                name: WriteName(writer: "writer-1", number: id)
            )
            harness { $0.write(write, hash: id == 2 ? "h" : nil, now: $1) }
        }
        harness { $0.write(write(4), now: $1) }
        let names = [WriteName("writer-1.1"), nil, WriteName("writer-1.3"), nil]
        #expect(harness.takeRequests().map(\.name) == (isExtended ? names : [nil, nil, nil, nil]))
        harness.receive(.closed(.broken("cut")))
        harness.passTime(to: harness.machine.deadline ?? 0)
        harness.greet(isExtended: true)
        #expect(harness.takeRequests().map(\.name) == [names[0], names[2], nil], "a transaction does not come again")
    }

    @Test func getsAreAnsweredOrLost() {
        var harness = MachineHarness()
        harness { $0.get(RequestID(rawValue: 1), spec("/a"), now: $1) }
        #expect(harness.takeReports() == [.getAnswered(RequestID(rawValue: 1), .lost)])
        harness { $0.goOnline(now: $1) }
        harness { $0.get(RequestID(rawValue: 2), spec("/a", Query(index: .key, limit: .last(3))), now: $1) }
        #expect(harness.takeReports().isEmpty)
        harness.greet()
        #expect(
            harness.takeTexts() == [
                "{\"t\":\"d\",\"d\":{\"r\":1,\"a\":\"g\",\"b\":{\"p\":\"/a\",\"q\":{\"l\":3,\"vf\":\"r\",\"i\":\".key\"}}}}"
            ])
        _ = harness.takeReports()
        harness.answer(1, "ok", "{\"x\":1}")
        #expect(
            harness.takeReports() == [
                .getAnswered(RequestID(rawValue: 2), .value(Node.null.replacing(Path(splitting: "x"), with: .int(1))))
            ])
        for id in 3...5 { harness { $0.get(RequestID(rawValue: UInt64(id)), spec("/a"), now: $1) } }
        harness { $0.cancelGet(RequestID(rawValue: 4), now: $1) }
        harness.answer(2, "failure", "\"Index not defined\"")
        #expect(
            harness.takeReports() == [
                .getAnswered(
                    RequestID(rawValue: 3), .refused(RequestFailure(status: .failure, explanation: "Index not defined"))
                )
            ])
        harness.answer(3)
        harness.receive(.closed(.broken("cut")))
        #expect(harness.takeReports().first == .getAnswered(RequestID(rawValue: 5), .lost))
    }

    @Test func aGetWhoseAnswerIsNoValueIsLostWithTheConnection() {
        var harness = MachineHarness()
        harness.connect()
        harness { $0.get(RequestID(rawValue: 1), spec("/a"), now: $1) }
        harness.answer(1, "ok", "{\"a/b\":1}")
        #expect(harness.closes.count == 1)
        #expect(harness.takeReports().first == .getAnswered(RequestID(rawValue: 1), .lost))
    }

    @Test func purgedWritesAreReportedAndNotSent() {
        var harness = MachineHarness()
        harness.connect()
        harness { $0.write(write(1), now: $1) }
        harness { $0.goOffline(now: $1) }
        harness { $0.write(write(2), hash: "h", now: $1) }
        harness { $0.onDisconnectCancel(RequestID(rawValue: 7), at: .root, now: $1) }
        _ = harness.takeReports()
        harness { $0.purgeWrites(now: $1) }
        #expect(
            harness.takeReports() == [
                .writeAnswered(WriteID(rawValue: 1), .purged), .writeAnswered(WriteID(rawValue: 2), .purged),
                .onDisconnectAnswered(RequestID(rawValue: 7), .purged),
            ])
        _ = harness.takeRequests()
        harness.connect()
        #expect(harness.takeRequests().isEmpty)
        // A purged write that is in flight is still answered by the server, which does not know of the purge.
        harness { $0.write(write(3), now: $1) }
        harness { $0.purgeWrites(now: $1) }
        harness.answer(1)
        #expect(harness.takeReports() == [.writeAnswered(WriteID(rawValue: 3), .purged)])
    }

    @Test func onDisconnectOperationsAreSentAgainOnlyWhileUnanswered() {
        var harness = MachineHarness()
        harness.connect()
        let path = Path(splitting: "/p")
        harness { $0.onDisconnectPut(RequestID(rawValue: 1), at: path, .bool(false), now: $1) }
        harness {
            $0.onDisconnectMerge(
                RequestID(rawValue: 2), at: path, [Change(path: Path(splitting: "a"), value: .int(1))], now: $1)
        }
        harness { $0.onDisconnectCancel(RequestID(rawValue: 3), at: path, now: $1) }
        #expect(
            harness.takeTexts() == [
                "{\"t\":\"d\",\"d\":{\"r\":1,\"a\":\"o\",\"b\":{\"p\":\"/p\",\"d\":false}}}",
                "{\"t\":\"d\",\"d\":{\"r\":2,\"a\":\"om\",\"b\":{\"p\":\"/p\",\"d\":{\"a\":1}}}}",
                "{\"t\":\"d\",\"d\":{\"r\":3,\"a\":\"oc\",\"b\":{\"p\":\"/p\",\"d\":null}}}",
            ])
        harness.answer(1)
        #expect(harness.takeReports() == [.onDisconnectAnswered(RequestID(rawValue: 1), .done)])
        harness.receive(.closed(.broken("cut")))
        harness.passTime(to: harness.machine.deadline ?? 0)
        harness.greet()
        #expect(harness.takeRequests().count == 2)
    }

    @Test func noMoreIsSentAheadThanAllowed() {
        var harness = MachineHarness { $0.maxRequestsInFlight = 10 }
        harness { machine, now in for id in 1...100 { machine.write(write(Int64(id)), now: now) } }
        harness.connect()
        harness { $0.goOffline(now: $1) }
        harness { $0.goOnline(now: $1) }
        harness.greet()
        var seen = 0
        while true {
            let requests = harness.takeRequests()
            if requests.isEmpty { break }
            seen += requests.count
            #expect(requests.count <= 10)
            for request in requests { harness.answer(request.number) }
        }
        #expect(seen == 100)
    }

    @Test func longMessagesGoInPieces() throws {
        var harness = MachineHarness()
        harness.connect()
        let text = String(repeating: "ä😀", count: 20_000)
        harness { $0.write(write(1, "/a", .string(text)), now: $1) }
        let request = try #require(harness.takeRequests().first)
        guard case .put(_, let data, _, _) = request.action else {
            Issue.record("no put")
            return
        }
        #expect(data.node == .string(text))
    }
}
