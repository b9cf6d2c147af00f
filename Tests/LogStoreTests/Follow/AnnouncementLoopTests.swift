import LogStore
import Postgres
import Runtime
import Synchronization
import TestSupport
import Testing
import Tree

/// Tests of the loop that listens on a real server: its behavior with announcements, without them, and after a lost
/// connection.
@Suite struct AnnouncementLoopTests {
    /// Records the loop's calls.
    private final class Recorder: AnnouncementListener, Sendable {
        struct State {
            var stops = false
            var connections = 0
            var looks: [Bool] = []
            var heard: [Announcement] = []
            var failures = 0
            var pauses: [Int64] = []
            var closed = 0
            /// The number of subsequent checks that fail.
            var failingLooks = 0
        }
        let state = Condition(State())
        let url: PostgresURL
        private let wantsLook: Bool
        private let wake: WakeHandle

        init(_ url: PostgresURL, wantsLook: Bool, wake: WakeHandle) {
            self.url = url
            self.wantsLook = wantsLook
            self.wake = wake
        }

        var stopsNow: Bool { state.withLock { $0.stops } }

        func connect() throws -> LogConnection {
            let connection = try LogConnection(url)
            try connection.listen(to: Announcement.Kind.allCases)
            state.broadcast { $0.connections += 1 }
            return connection
        }

        func look(_ connection: LogConnection, isNew: Bool) throws {
            let fails = state.broadcast { state -> Bool in
                state.looks.append(isNew)
                guard state.failingLooks > 0 else { return false }
                state.failingLooks -= 1
                return true
            }
            if fails { throw LogStoreError.corrupt("a look that fails") }
        }

        func listen(_ connection: LogConnection, milliseconds: Milliseconds) throws -> Bool {
            let heard = try connection.waitForAnnouncements(milliseconds: milliseconds, wake: wake)
            state.broadcast { $0.heard += heard }
            return wantsLook && !heard.isEmpty
        }

        func failed(_ error: any Error, askedAt: Int64) { state.broadcast { $0.failures += 1 } }

        func close(_ connection: LogConnection) {
            connection.close()
            state.broadcast { $0.closed += 1 }
        }

        func pause(milliseconds: Int64) { state.broadcast { $0.pauses.append(milliseconds) } }

        /// Waits until the condition holds. Returns false after 30 seconds.
        func waits(_ condition: @escaping (State) -> Bool) -> Bool {
            state.wait(milliseconds: 30_000) { condition($0) ? true : nil } ?? false
        }
    }

    private func run(
        _ url: PostgresURL, poll: Int64 = 600_000, wantsLook: Bool = false, failingLooks: Int = 0,
        _ body: (Recorder, WakeHandle) throws -> Void
    ) throws {
        let wake = try WakeHandle()
        let recorder = Recorder(url, wantsLook: wantsLook, wake: wake)
        recorder.state.withLock { $0.failingLooks = failingLooks }
        let machine = ListeningMachine(
            pollMilliseconds: poll, backoff: Backoff(firstMilliseconds: 1, longestMilliseconds: 8))
        let thread = Thread(name: "listening") {
            var loop = AnnouncementLoop(machine)
            loop.run(recorder)
        }
        defer {
            recorder.state.broadcast { $0.stops = true }
            wake.wake()
            thread.join()
            let (opened, closed) = recorder.state.withLock { ($0.connections, $0.closed) }
            #expect(opened == closed, "every connection is closed")
        }
        try body(recorder, wake)
    }

    @Test func itHearsWhatIsAnnounced() throws {
        try withDatabase { url in
            try run(url) { recorder, _ in
                #expect(recorder.waits { $0.looks == [true] })
                let connection = try LogConnection(url)
                defer { connection.close() }
                var writer = BatchWriter(try connection.make())
                #expect(try connection.commit(writer.set("a", .int(1))) == .committed)
                #expect(recorder.state.withLock { $0.heard } == [], "a commit announces nothing by itself")
                try connection.announce([writer.namespace: 1])
                let message = try #require(PeerMessage(payload: "one 1 2 ab hello you"))
                try connection.notifyPeers(message)
                let mirror = try connection.addMirror(
                    writer.namespace, name: "m", definition: Array("{}".utf8), target: nil)
                try connection.setMirrorPaused(writer.namespace, mirror, true)
                #expect(
                    recorder.waits {
                        $0.heard == [.commit(namespace: writer.namespace, head: 1), .message(message), .mirrors]
                    })
                #expect(recorder.state.withLock { $0.looks } == [true], "nothing wanted a look")
            }
        }
    }

    @Test func itLooksWhereAnAnnouncementWantsIt() throws {
        try withDatabase { url in
            try run(url, wantsLook: true) { recorder, _ in
                #expect(recorder.waits { $0.looks == [true] })
                let connection = try LogConnection(url)
                defer { connection.close() }
                var writer = BatchWriter(try connection.make())
                #expect(try connection.commit(writer.set("a", .int(1))) == .committed)
                try connection.announce([writer.namespace: 1])
                #expect(recorder.waits { $0.looks == [true, false] })
            }
        }
    }

    @Test func itLooksByThePoll() throws {
        try withDatabase { url in
            try run(url, poll: 5) { recorder, _ in
                #expect(recorder.waits { $0.looks.count >= 4 })
                let looks = recorder.state.withLock { $0.looks }
                #expect(looks.first == true)
                #expect(!looks.dropFirst().contains(true))
            }
        }
    }

    @Test func aFailedLookStartsAgain() throws {
        try withDatabase { url in
            try run(url, failingLooks: 5) { recorder, _ in
                #expect(recorder.waits { $0.looks.count == 6 })
                let state = recorder.state.withLock { ($0.looks, $0.failures, $0.pauses, $0.closed) }
                #expect(state.0 == Array(repeating: true, count: 6))
                #expect(state.1 == 5)
                #expect(state.2 == [1, 2, 4, 8, 8])
                #expect(state.3 == 5)
            }
        }
    }

    @Test func itComesBackWhenTheServerDoes() throws {
        try withDatabase { url in
            let proxy = try CuttingProxy(url)
            defer { proxy.stop() }
            try run(proxy.url) { recorder, _ in
                #expect(recorder.waits { $0.looks == [true] })
                proxy.setDown(true)
                #expect(recorder.waits { $0.failures >= 3 }, "the lost connection, and tries to connect")
                proxy.setDown(false)
                #expect(recorder.waits { $0.looks == [true, true] })
                // The loop receives announcements again.
                let connection = try LogConnection(url)
                defer { connection.close() }
                var writer = BatchWriter(try connection.make())
                #expect(try connection.commit(writer.set("a", .int(1))) == .committed)
                try connection.announce([writer.namespace: 1])
                #expect(recorder.waits { $0.heard == [.commit(namespace: writer.namespace, head: 1)] })
            }
        }
    }

    @Test func itEndsWhileItWaits() throws {
        try withDatabase { url in
            try run(url) { recorder, _ in #expect(recorder.waits { $0.looks == [true] }) }
        }
    }
}
