import Foundation
import Testing

@testable import PathmirrorClient

/// Checks that a cancelled task stops waiting for the server, while its request continues.
@Suite struct CancellationTests {
    private func isCancelled<Value>(_ task: Task<Value, any Error>) async -> Bool {
        task.cancel()
        if case .failure(let error) = await task.result { return error is CancellationError }
        return false
    }

    @Test func theWriteStays() async throws {
        let ref = TestDatabases.offline().reference(withPath: "a")
        let values = Recorder<Int>()
        ref.observe(.value) { values.record($0.value as? Int ?? -1) }
        let task = Task { try await ref.setValue(1) }
        try await until("the write is seen") { values.events == [1] }
        #expect(await isCancelled(task))
        #expect(try await ref.getData().value as? Int == 1)
        #expect(values.events == [1])
    }

    @Test func receipts() async throws {
        let ref = TestDatabases.offline().reference(withPath: "a")
        #expect(await isCancelled(Task { try await ref.commitValue(1) }))
        #expect(await isCancelled(Task { try await ref.commitChildValues(["b": 2]) }))
    }

    @Test func aCancelledTaskWritesAndDoesNotWait() async throws {
        let ref = TestDatabases.offline().reference(withPath: "a")
        let task = Task {
            while !Task.isCancelled { await Task.yield() }
            return try await ref.setValue(2)
        }
        #expect(await isCancelled(task))
        #expect(try await ref.getData().value as? Int == 2)
    }

    @Test func transactions() async throws {
        let ref = TestDatabases.offline().reference(withPath: "a")
        let values = Recorder<Int>()
        ref.observe(.value) { values.record($0.value as? Int ?? -1) }
        let task = Task {
            try await ref.runTransactionBlock { data in
                data.value = 7
                return .success(withValue: data)
            }
        }
        try await until("the result is seen") { values.events == [7] }
        #expect(await isCancelled(task))
        #expect(values.events == [7])
    }

    @Test func questions() async throws {
        let database = TestDatabases.make(url: "http://127.0.0.1:1")
        database.configure { $0.getWait = 3_600_000 }
        #expect(await isCancelled(Task { try await database.reference().getData() }))
        await database.app?.delete()
    }

    @Test func theFirstAnswerCounts() async throws {
        let value = try await Answer<Int>.wait { answer in
            answer.give(.success(1))
            answer.give(.success(2))
        }
        #expect(value == 1)
    }
}
