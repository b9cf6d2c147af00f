import ClientCore
import Foundation
import FoundationNetworking
import TestSupport
import Testing

@testable import PathmirrorClient

extension EndToEnd {
    /// Checks the log positions of data, and waits for an entry of the gateway's log.
    @Suite struct Seqs {
        /// Sends a REST request as an administrator; returns the answer's seq and text.
        private func rest(
            _ method: String, _ path: String, _ body: String? = nil
        ) async throws -> (seq: Int?, text: String) {
            let gateway = try #require(TestGateway.current)
            var request = URLRequest(url: try #require(URL(string: gateway.url + path)))
            request.httpMethod = method
            request.setValue("Bearer owner", forHTTPHeaderField: "Authorization")
            request.httpBody = body.map { Data($0.utf8) }
            let (data, response) = try await URLSession.shared.data(for: request)
            let seq = (response as? HTTPURLResponse)?.value(forHTTPHeaderField: "X-Pathmirror-Seq")
            return (seq.flatMap { Int($0) }, String(decoding: data, as: UTF8.self))
        }

        private func resumedListens() async throws -> Int {
            let text = try await rest("GET", "/.metrics").text
            let line = text.split(separator: "\n").first {
                $0.hasPrefix("pathmirror_stream_resumes_total{outcome=\"continued\"} ")
            }
            return try #require(line?.split(separator: " ").last.flatMap { Int($0) })
        }

        @Test func snapshotsAndReceiptsSayAsOfWhichEntryTheyAre() async throws {
            let ground = try Ground()
            let (ref, other) = (ground.client(), ground.client())
            let receipt = try await ref.commitValue(["a": 1])
            let first = try #require(receipt.seq)
            #expect(receipt.ref.path == ref.path)
            let seqs = Recorder<Int?>()
            other.observe(.value) { seqs.record($0.seq) }
            try await until("the value is there") { seqs.events.count == 1 }
            #expect(try #require(seqs.events[0]) >= first)
            let next = try #require(try await ref.commitChildValues(["b": 2]).seq)
            try await until("the change is there") { seqs.events.count == 2 }
            #expect(seqs.events[1] == next && next > first)
            let snapshot = try await ref.getData()
            #expect(try #require(snapshot.seq) >= next)
            #expect(snapshot.childSnapshot(forPath: "b").seq == snapshot.seq)
            // The client's own new write has no log position yet.
            atOnce { other.child("c").setValue(3) }
            try await until("the write is seen") { seqs.events.count == 3 }
            #expect(seqs.events[2] == nil)
            let (committed, result) = try await ref.child("n").runTransactionBlock { data in
                data.value = 5
                return .success(withValue: data)
            }
            let seq = try #require(result.seq)
            #expect(committed && seq > next)
            await #expect(throws: DatabaseError.self) { try await ref.commitValue(Date()) }
        }

        /// A service writes by REST and passes the seq on: the app's listeners have the write when the wait is over.
        @Test func listenersHaveWhatWasWaitedFor() async throws {
            let ground = try Ground()
            let ref = ground.client()
            let values = ref.recordValues()
            for round in 1...20 {
                let seq = try #require(try await rest("PUT", "/\(ground.path).json", "\(round)").seq)
                try await ref.database.waitFor(seq: seq)
                #expect(values.events.last == "\(round)")
                #expect(try #require(await ref.observeSingleEvent(of: .value).seq) >= seq)
            }
        }

        @Test func aWaitThatCannotEndSaysWhy() async throws {
            let ground = try Ground()
            let ref = ground.client()
            // A client that reads nothing may not learn the log's length.
            await #expect(throws: DatabaseError(.permissionDenied, "")) {
                do {
                    try await ref.database.waitFor(seq: 1)
                } catch let error as DatabaseError {
                    throw DatabaseError(error.code, "")
                }
            }
            let seq = try #require(try await ref.commitValue(1).seq)
            #expect(try #require(try await ref.getData().seq) >= seq)
            try await ref.database.waitFor(seq: seq)
            await #expect(throws: DatabaseError(.timedOut, "")) {
                do {
                    try await ref.database.waitFor(seq: 1 << 50, timeout: .milliseconds(50))
                } catch let error as DatabaseError {
                    throw DatabaseError(error.code, "")
                }
            }
            let waiting = Task { try await ref.database.waitFor(seq: 1 << 50) }
            waiting.cancel()
            await #expect(throws: CancellationError.self) { try await waiting.value }
            let plain = ground.gateway.client()
            plain.configure { $0.connection = { $0.asksForExtension = false } }
            await #expect(throws: DatabaseError(.unsupported, "")) {
                do {
                    try await plain.waitFor(seq: 1)
                } catch let error as DatabaseError {
                    throw DatabaseError(error.code, "")
                }
            }
            #expect(try await plain.reference(withPath: ground.path).getData().seq == nil)
        }

        /// After a restart a large listen is resumed after the data on disk.
        @Test func aRestartedAppResumesWhereItWas() async throws {
            let ground = try Ground()
            let directory = TemporaryFolder.path("client-resuming")
            defer { TemporaryFolder.remove(directory) }
            let other = ground.client()
            // Other clients write to the same log meanwhile: the value must be large enough to make their entries worth
            // reading.
            let many = Dictionary(uniqueKeysWithValues: (0..<10_000).map { ("k\($0)", $0) })
            let first = try #require(try await other.commitValue(many).seq)
            let known: Int
            let before: DatabaseReference
            do {
                let ref = ground.client(directory: directory)
                before = ref
                let seqs = Recorder<Int?>()
                ref.observe(.value) { seqs.record($0.seq) }
                try await ref.database.waitFor(seq: first)
                known = try #require(seqs.events.last ?? nil)
                #expect(known >= first)
                await ref.database.app?.delete()
            }
            for key in ["k1", "k2", "k3"] { try await other.child(key).setValue(-1) }
            let last = try #require(try await other.child("k4").commitValue(nil).seq)
            let resumed = try await resumedListens()
            let again = ground.restarted(before, directory: directory)
            let children = again.recordChildren()
            let seqs = Recorder<(Int?, Int)>()
            again.observe(.value) { snapshot in
                let sum = snapshot.childSnapshots.reduce(0) { $0 + ($1.value as? Int ?? 0) }
                seqs.record((snapshot.seq, sum))
            }
            try await again.database.waitFor(seq: last)
            #expect(try await resumedListens() == resumed + 1)
            #expect(seqs.events.first?.0 == known, "from disk")
            // Other clients may have written after this entry before the listen was answered.
            let reported = try #require(seqs.events.last)
            #expect(try #require(reported.0) >= last)
            #expect(reported.1 == (0..<10_000).reduce(0, +) - (1 + 2 + 3) - 3 - 4)
            // All missed changes are delivered in one step.
            let changes = children.events.filter { !$0.hasPrefix("+") }.map { $0.prefix(3) }
            #expect(changes == ["-k4", "=k1", "=k2", "=k3"])
        }
    }
}
