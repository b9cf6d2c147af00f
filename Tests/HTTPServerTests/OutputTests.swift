import CEvent
import Glibc
import Testing

@testable import HTTPServer

/// Checks that queued output is sent in order, each byte once, with drops in between.
@Suite struct OutputQueueModelTests {
    private struct Model {
        var chunks: [(bytes: [UInt8], isDroppable: Bool, isBegun: Bool)] = []
        var all: [UInt8] { chunks.flatMap(\.bytes) }
    }

    private static func front(_ queue: OutputQueue, _ most: Int) -> [UInt8] {
        withUnsafeTemporaryAllocation(of: iovec.self, capacity: most) { vector in
            queue.withFront(vector) { pieces in
                pieces.flatMap { Array(UnsafeRawBufferPointer(start: $0.iov_base, count: $0.iov_len)) }
            }
        }
    }

    @Test(arguments: 0..<100) func agreesWithAPlainList(_ seed: UInt64) {
        var dice = SeededGenerator(seed: seed &* 131 + 7)
        var queue = OutputQueue()
        var model = Model()
        var next: UInt8 = 0
        for _ in 0..<400 {
            switch Int.random(in: 0..<5, using: &dice) {
            case 0, 1:
                let count = Int.random(in: 0...20, using: &dice)
                let bytes = (0..<count).map { _ -> UInt8 in
                    next &+= 1
                    return next
                }
                let offset = Int.random(in: 0...max(0, count), using: &dice)
                let isDroppable = Bool.random(using: &dice)
                queue.append(SharedBytes(bytes), offset: offset, isDroppable: isDroppable)
                if offset < count { model.chunks.append((Array(bytes[offset...]), isDroppable, offset > 0)) }
            case 2, 3:
                let count = Int.random(in: 0...model.all.count, using: &dice)
                queue.removeSent(count)
                var rest = count
                while rest > 0 {
                    if rest < model.chunks[0].bytes.count {
                        model.chunks[0].bytes.removeFirst(rest)
                        model.chunks[0].isBegun = true
                        rest = 0
                    } else {
                        rest -= model.chunks.removeFirst().bytes.count
                    }
                }
            default:
                guard Int.random(in: 0..<4, using: &dice) == 0 else { continue }
                let committed = Int.random(in: 0...30, using: &dice)
                let dropped = queue.dropUnsent(committedBytes: committed).map(\.bytes)
                var kept: [(bytes: [UInt8], isDroppable: Bool, isBegun: Bool)] = []
                var expected: [[UInt8]] = []
                var start = 0
                for chunk in model.chunks {
                    if chunk.isBegun || !chunk.isDroppable || start < committed {
                        kept.append(chunk)
                    } else {
                        expected.append(chunk.bytes)
                    }
                    start += chunk.bytes.count
                }
                model.chunks = kept
                #expect(dropped == expected)
            }
            #expect(queue.byteCount == model.all.count)
            #expect(queue.isEmpty == model.all.isEmpty)
            #expect(Self.front(queue, 3) == model.chunks.prefix(3).flatMap(\.bytes))
        }
        #expect(Self.front(queue, 1_000) == model.all)
    }

    @Test func anEmptyQueue() {
        var queue = OutputQueue()
        #expect(queue.isEmpty && queue.byteCount == 0)
        #expect(Self.front(queue, 4).isEmpty)
        queue.removeSent(0)
        #expect(queue.dropUnsent(committedBytes: 0).isEmpty)
        queue.append(SharedBytes([]), isDroppable: true)
        queue.append(SharedBytes([1, 2]), offset: 2, isDroppable: true)
        #expect(queue.isEmpty)
    }
}

/// Checks that a response is built byte for byte, however large it grows.
@Suite struct OutputScratchTests {
    @Test(arguments: [1, 2, 16, 64 * 1_024]) func grows(_ capacity: Int) {
        let scratch = OutputScratch(capacity: capacity)
        var expected: [UInt8] = []
        for step in 0..<500 {
            switch step % 4 {
            case 0:
                scratch.append("text ")
                expected += Array("text ".utf8)
            case 1:
                scratch.append(decimal: step * 7_919)
                expected += Array("\(step * 7_919)".utf8)
            case 2:
                scratch.append(byte: UInt8(truncatingIfNeeded: step))
                expected.append(UInt8(truncatingIfNeeded: step))
            default:
                let bytes = [UInt8](repeating: UInt8(truncatingIfNeeded: step), count: step)
                scratch.append(bytes)
                expected += bytes
            }
            #expect(scratch.count == expected.count)
        }
        #expect(Array(scratch.bytes(from: 0)) == expected)
        #expect(Array(scratch.bytes(from: 100)) == Array(expected[100...]))
        #expect(Array(scratch.bytes(from: scratch.count)).isEmpty)
    }

    /// The scratch buffer is a stack: a caller that removes its own output leaves the earlier output.
    @Test func isAStack() {
        let scratch = OutputScratch(capacity: 4)
        scratch.append("below")
        let start = scratch.count
        scratch.append("above and longer than all there was")
        #expect(String(decoding: scratch.bytes(from: start), as: UTF8.self) == "above and longer than all there was")
        scratch.truncate(to: start)
        scratch.append("!")
        #expect(String(decoding: scratch.bytes(from: 0), as: UTF8.self) == "below!")
    }

    @Test(arguments: [0, 9, 10, 1_234_567_890, Int.max]) func numbers(_ value: Int) {
        let scratch = OutputScratch(capacity: 1)
        scratch.append(decimal: value)
        #expect(String(decoding: scratch.bytes(from: 0), as: UTF8.self) == "\(value)")
    }

    @Test func aNegativeLengthIsNone() {
        let scratch = OutputScratch(capacity: 1)
        scratch.append(decimal: -5)
        #expect(String(decoding: scratch.bytes(from: 0), as: UTF8.self) == "0")
    }
}
