import Engine
import Glibc
import Runtime
import TestSupport
import Testing
import Tree

@testable import Gateway

/// Tests of event streams over a real server.
@Suite struct StreamsTests {
    private func open(
        _ gateway: TestGateway, _ target: String, lastSeen: String? = nil, receiveBuffer: Int32? = nil
    ) throws -> WebClient {
        let client = try WebClient(gateway.port, receiveBuffer: receiveBuffer)
        var headers = ["Accept": "text/event-stream"]
        if let lastSeen { headers["Last-Event-ID"] = "\(lastSeen)" }
        try client.send("GET", target + (target.contains("?") ? "&" : "?") + "eventIds=true", headers)
        #expect(try client.head().status == 200)
        return client
    }

    @Test func valueThenChanges() throws {
        try withGateway { gateway in
            let writer = try WebClient(gateway.port)
            _ = try writer.request("PUT", "/a.json", body: "{\"b\":1}")
            let stream = try open(gateway, "/a.json")
            let first = try stream.event()
            #expect(first.name == "put")
            #expect(first.id == 1)
            #expect(first.data == "{\"path\":\"/\",\"data\":{\"b\":1}}")
            _ = try writer.request("PATCH", "/a.json", body: "{\"b\":2,\"c\":3}")
            #expect(try stream.event().name == "patch")
            _ = try writer.request("PUT", "/other.json", body: "1")
            _ = try writer.request("DELETE", "/a.json")
            let last = try stream.event()
            #expect(last.id == 4)
            #expect(last.data == "{\"path\":\"/\",\"data\":null}")
        }
    }

    @Test func idsOnRequest() throws {
        try withGateway { gateway in
            for (target, headers, hasID) in [
                ("/a.json", [:], false), ("/a.json?eventIds=true", [:], true),
                ("/a.json", ["Last-Event-ID": "0"], true),
                ("/a.json", ["Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"], true),
            ] as [(String, [String: String], Bool)] {
                let client = try WebClient(gateway.port)
                try client.send("GET", target, headers.merging(["Accept": "text/event-stream"]) { $1 })
                #expect(try client.head().status == 200)
                #expect(try (client.event().id != nil) == hasID, "\(target) \(headers)")
            }
        }
    }

    @Test func resuming() throws {
        try withGateway { gateway in
            let writer = try WebClient(gateway.port)
            for value in 1...10 { _ = try writer.request("PUT", "/a/k\(value).json", body: "\(value)") }
            let path = Path(splitting: "a")
            let snapshot = try gateway.engine.namespace("default").snapshot
            let ids = EventIDs(try gateway.engine.namespace("default"), path, snapshot.rules)
            let batches = MutexBox<[Int64: [UInt8]]>([:])
            let isRead = Condition(false)
            gateway.engine.engine.readLog(
                try gateway.engine.namespace("default").id, after: 0, through: 10, patience: 0,
                each: { entries, found, _ in
                    batches.withLock { for (entry, batch) in zip(entries, found) { $0[entry.seq] = batch } }
                    return true
                }, completion: { _ in isRead.broadcast { $0 = true } })
            #expect(isRead.wait(milliseconds: 20_000) { $0 ? true : nil } == true)
            let id = { (seq: Int64) in ids.id(seq, batches.withLock { $0[seq] }) }
            let stream = try open(gateway, "/a.json", lastSeen: id(4))
            for seq in 5...10 as ClosedRange<Int64> {
                let event = try stream.event()
                #expect(event.id == seq)
                #expect(event.data == "{\"path\":\"/k\(seq)\",\"data\":\(seq)}")
            }
            _ = try writer.request("PUT", "/a/k11.json", body: "11")
            #expect(try stream.event().id == 11)
            // The position is no longer retained (here: too far back), so the stream starts with a fresh value.
            let late = try open(gateway, "/a.json?orderBy=\"$key\"&limitToLast=1", lastSeen: id(2))
            #expect(try late.event().name == "put")
            // The seq of one entry with the batch of another, like an id of a history that was rolled back.
            let lost = try open(gateway, "/a.json", lastSeen: ids.id(4, batches.withLock { $0[5] }))
            let fresh = try lost.event()
            #expect(fresh.name == "put")
            #expect(fresh.id == 11)
            let newest = try open(gateway, "/a.json", lastSeen: ids.id(11, batches.withLock { $0[5] }))
            #expect(try newest.event().name == "put")
        }
    }

    /// Checks that a slow client receives the newest value in the end, and not all events in between.
    @Test func slowReadersAreConflated() throws {
        try withGateway {
            $0.streamBufferBytes = 64 * 1024
        } _: { gateway in
            let namespace = try gateway.engine.namespace("default")
            let stream = try open(gateway, "/a.json", receiveBuffer: 4_096)
            #expect(try stream.event().id == 0)
            let filler = String(repeating: "x", count: 20_000)
            var last: Int64 = 0
            #expect(
                eventually {
                    last = namespace.write(.set("a/n", .string(filler + "\(last)")))?.committedSeq ?? last
                    return gateway.gateway.metrics.conflations.current > 0
                })
            last = namespace.write(.set("a/n", .string("end")))?.committedSeq ?? last
            var seqs: [Int64] = []
            while seqs.last != last {
                let event = try stream.event()
                seqs.append(try #require(event.id))
                if event.id == last { #expect(event.data.contains("end")) }
            }
            #expect(seqs == seqs.sorted())
            #expect(seqs.count < Int(last))
        }
    }

    /// Checks that a client that applies the events has the current value, however slowly it reads. Large values
    /// (encoded by workers), a small buffer and fast writers cause conflation at every stage of a stream.
    @Test(arguments: [1, 2, 3] as [UInt64])
    func conflationMissesNothing(seed: UInt64) throws {
        try withGateway {
            $0.streamBufferBytes = 8 * 1024
            $0.heavyRows = 20
        } _: { gateway in
            let namespace = try gateway.engine.namespace("default")
            let wide = Node(children: (0..<2_000).map { (Key("k\($0)"), Node.string("value \($0)")) })
            _ = namespace.write(.set("a/wide", wide))
            let isDone = MutexBox(false)
            let writer = Thread(name: "writer") {
                var random = SeededGenerator(seed: seed)
                var count: Int64 = 0
                while !isDone.withLock({ $0 }) {
                    let sink = CollectingSink()
                    for token in 0..<50 as Range<UInt64> {
                        count += 1
                        namespace.submit(.set("a/n\(random.below(300))", .int(count)), to: sink, token: token)
                    }
                    _ = sink.all(50)
                }
            }
            defer {
                isDone.withLock { $0 = true }
                writer.join()
            }
            var random = SeededGenerator(seed: seed)
            for round in 0..<6 {
                let stream = try open(gateway, "/a.json", receiveBuffer: 8_192)
                var value = Node.null
                var seq: Int64 = -1
                for step in 0..<(20 + random.below(100)) {
                    let event = try stream.event()
                    guard event.name == "put" || event.name == "patch" else { continue }
                    let id = try #require(event.id)
                    #expect(id > seq)
                    seq = id
                    value = try value.applying(event)
                    if random.oneIn(20) { usleep(5_000) }
                    // The client's value contains all writes up to this event. The log provides the expected value.
                    if step % 25 == 24 { try check(value, at: id, gateway, namespace, round) }
                }
                try check(value, at: seq, gateway, namespace, round)
            }
        }
    }

    private func check(
        _ value: Node, at seq: Int64, _ gateway: TestGateway, _ namespace: LiveNamespace, _ round: Int
    ) throws {
        let done = Condition(false)
        let tree = MutexBox(Node.null)
        gateway.engine.engine.readLog(namespace.id, after: 0, through: seq, patience: 0) { entries, _, _ in
            tree.withLock { root in
                for entry in entries {
                    for change in entry.changes { root = root.replacing(change.path, with: change.value) }
                }
            }
            return true
        } completion: { _ in
            done.broadcast { $0 = true }
        }
        #expect(done.wait(milliseconds: 20_000) { $0 ? true : nil } == true)
        #expect(tree.withLock { $0[Path(splitting: "a")] } == value, "round \(round), seq \(seq)")
    }
}

extension Node {
    /// Returns the client's value after an event in its received form.
    fileprivate func applying(_ event: (name: String, id: Int64?, data: String)) throws -> Node {
        let message = try JSONParser.parse(event.data.replacingPathKey())
        guard case .string(let path) = message.child(Key("p")) else { return self }
        let data = message.child(Key("d"))
        if event.name == "put" { return replacing(Path(splitting: path), with: data) }
        guard case .branch(let branch) = data else { return self }
        return branch.children.reduce(self) {
            $0.replacing(Path(splitting: path).appending(Path(splitting: $1.key.text)), with: $1.node)
        }
    }
}

extension String {
    /// Shortens the names of the two members. Values in these tests do not contain these texts.
    fileprivate func replacingPathKey() -> String {
        var text = self
        if let range = text.firstRange(of: "\"path\":") { text.replaceSubrange(range, with: "\"p\":") }
        if let range = text.firstRange(of: "\"data\":") { text.replaceSubrange(range, with: "\"d\":") }
        return text
    }
}
