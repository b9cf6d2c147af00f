import Rules
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks the order and the bounds of the queue of writes that wait for the next batch.
@Suite struct WriteQueueTests {
    private static func item(_ token: UInt64, bytes: Int = 10, alone: Bool = false) -> WriteQueue.Waiting {
        .test(token, bytes: bytes, alone: alone)
    }

    private static func settings(_ change: (inout EngineSettings) -> Void) -> EngineSettings {
        var settings = EngineSettings()
        change(&settings)
        return settings
    }

    @Test func firstInFirstOut() {
        var queue = WriteQueue()
        let settings = Self.settings { $0.maxBatchWrites = 3 }
        for token in 0..<7 as Range<UInt64> { #expect(queue.append(Self.item(token), settings) == true) }
        #expect(queue.takeBatch(settings).map(\.token) == [0, 1, 2])
        #expect(queue.append(Self.item(7), settings) == true)
        #expect(queue.takeBatch(settings).map(\.token) == [3, 4, 5])
        #expect(queue.takeBatch(settings).map(\.token) == [6, 7])
        #expect(queue.isEmpty && queue.takeBatch(settings).isEmpty)
    }

    @Test func whatIsPutBackComesFirstAndCounts() {
        var queue = WriteQueue()
        let settings = Self.settings {
            $0.maxBatchWrites = 3
            $0.maxWaitingBytes = 100
        }
        for token in 0..<5 as Range<UInt64> { #expect(queue.append(Self.item(token, bytes: 20), settings) == true) }
        let batch = queue.takeBatch(settings)
        #expect(queue.append(Self.item(5, bytes: 20), settings) == true)
        queue.putBack(batch)
        #expect(queue.count == 6 && queue.append(Self.item(6, bytes: 1), settings) == false)
        #expect(queue.takeBatch(settings).map(\.token) == [0, 1, 2])
        #expect(queue.takeBatch(settings).map(\.token) == [3, 4, 5])
        queue.putBack(batch)
        #expect(queue.takeBatch(settings).map(\.token) == [0, 1, 2] && queue.isEmpty)
    }

    /// A transaction continues the upstream messages of one claim only.
    @Test func messagesOfTwoClaimsAreInTwoBatches() {
        var queue = WriteQueue()
        let settings = EngineSettings()
        let fences: [UInt8?] = [1, nil, 1, 2, nil, 1]
        for (token, fence) in fences.enumerated() {
            let mark = fence.map { UpstreamMark(fence: [$0], number: Int64(token)) }
            #expect(queue.append(.test(UInt64(token), upstream: mark), settings) == true)
        }
        #expect(queue.takeBatch(settings).map(\.token) == [0, 1, 2])
        #expect(queue.takeBatch(settings).map(\.token) == [3, 4])
        #expect(queue.takeBatch(settings).map(\.token) == [5])
    }

    @Test func asManyWaitAsTheSettingsSay() {
        var queue = WriteQueue()
        let settings = Self.settings { $0.maxWaitingWrites = 2 }
        #expect(queue.append(Self.item(0), settings) == true)
        #expect(queue.append(Self.item(1), settings) == true)
        #expect(queue.append(Self.item(2), settings) == false)
        _ = queue.takeBatch(settings)
        #expect(queue.append(Self.item(3), settings) == true)
    }

    @Test func asManyBytesWaitAsTheSettingsSay() {
        var queue = WriteQueue()
        let settings = Self.settings { $0.maxWaitingBytes = 100 }
        #expect(queue.append(Self.item(0, bytes: 60), settings) == true)
        #expect(queue.append(Self.item(1, bytes: 41), settings) == false)
        #expect(queue.append(Self.item(2, bytes: 40), settings) == true)
        #expect(queue.takeAll().map(\.token) == [0, 2])
        // Writes that were taken no longer count. A single write is accepted whatever its size, or it could never be
        // written.
        #expect(queue.append(Self.item(3, bytes: 1_000), settings) == true)
        #expect(queue.append(Self.item(4, bytes: 0), settings) == false)
    }

    @Test func whatIsWrittenAlreadyTakesNoRoom() {
        var queue = WriteQueue()
        let settings = Self.settings { $0.maxWaitingWrites = 1 }
        #expect(queue.append(Self.item(0), settings) == true)
        queue.appendAnyway(Self.item(1))
        #expect(queue.count == 2)
        #expect(queue.takeAll().map(\.token) == [0, 1])
    }

    @Test(arguments: [
        (10, [10]), (30, [3, 3, 3, 1]), (100, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]), (500, Array(repeating: 1, count: 10)),
    ])
    func batchesEndByTheirBytes(bytes: Int, sizes: [Int]) {
        var queue = WriteQueue()
        let settings = Self.settings { $0.maxBatchBytes = 100 }
        for token in 0..<10 as Range<UInt64> { queue.appendAnyway(Self.item(token, bytes: bytes)) }
        var found: [Int] = []
        while !queue.isEmpty { found.append(queue.takeBatch(settings).count) }
        #expect(found == sizes)
    }

    /// A write that must be alone in its transaction ends the batch before it, and is a batch of its own.
    @Test(arguments: [
        ([], [3]), ([0], [1, 2]), ([1], [1, 1, 1]), ([2], [2, 1]), ([0, 1, 2], [1, 1, 1]), ([0, 2], [1, 1, 1]),
    ])
    func loners(alone: [UInt64], sizes: [Int]) {
        var queue = WriteQueue()
        for token in 0..<3 as Range<UInt64> { queue.appendAnyway(Self.item(token, alone: alone.contains(token))) }
        var found: [Int] = []
        while !queue.isEmpty { found.append(queue.takeBatch(EngineSettings()).count) }
        #expect(found == sizes)
    }

    /// Compares long queues, whose storage is compacted now and then, with a plain array.
    @Test(arguments: 1...6 as ClosedRange<UInt64>) func asAPlainQueue(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let settings = Self.settings {
            $0.maxBatchWrites = 1 + random.below(700)
            $0.maxBatchBytes = 5_000
            $0.maxWaitingWrites = 20_000
            $0.maxWaitingBytes = 60_000
        }
        var queue = WriteQueue()
        var model: [(token: UInt64, bytes: Int, alone: Bool)] = []
        var token: UInt64 = 0
        for _ in 0..<400 {
            for _ in 0..<random.below(60) {
                let one = (token: token, bytes: random.below(30), alone: random.oneIn(50))
                token += 1
                let held = model.reduce(0) { $0 + $1.bytes }
                let fits =
                    model.count < settings.maxWaitingWrites
                    && (model.isEmpty || held + one.bytes <= settings.maxWaitingBytes)
                #expect(queue.append(Self.item(one.token, bytes: one.bytes, alone: one.alone), settings) == fits)
                if fits { model.append(one) }
            }
            guard random.oneIn(2) else { continue }
            let batch = queue.takeBatch(settings)
            #expect(batch.map(\.token) == model.prefix(batch.count).map(\.token))
            #expect(batch.isEmpty == model.isEmpty)
            let taken = model.prefix(batch.count)
            #expect(batch.count <= settings.maxBatchWrites)
            #expect(batch.count < 2 || taken.reduce(0) { $0 + $1.bytes } <= settings.maxBatchBytes)
            #expect(batch.count < 2 || !taken.contains { $0.alone })
            model.removeFirst(batch.count)
            #expect(queue.count == model.count)
        }
        #expect(queue.takeAll().map(\.token) == model.map(\.token))
        #expect(queue.isEmpty)
    }
}
