import CEvent
import Glibc
import Testing

@testable import HTTPServer

/// Checks small parts in isolation.
@Suite struct PartsTests {
    @Test func wheelHandsOverWhatIsDueAndNothingElse() {
        var wheel = DeadlineWheel(tickMilliseconds: 10, bucketCount: 8, nowMilliseconds: 1000)
        #expect(wheel.file(1, deadlineMilliseconds: 1015) == 102)
        #expect(wheel.file(2, deadlineMilliseconds: 1020) == 102)
        #expect(wheel.file(3, deadlineMilliseconds: 1031) == 104)
        // A past deadline is filed at the next tick, a distant one in the last bucket.
        #expect(wheel.file(4, deadlineMilliseconds: 5) == 101)
        #expect(wheel.file(5, deadlineMilliseconds: 99_999) == 107)
        #expect(wheel.take(nowMilliseconds: 1009).isEmpty)
        #expect(wheel.take(nowMilliseconds: 1019).flatMap { $0 }.map(\.connection) == [4])
        #expect(wheel.take(nowMilliseconds: 1020).flatMap { $0 }.map(\.connection) == [1, 2])
        #expect(wheel.take(nowMilliseconds: 1020).isEmpty)
        #expect(wheel.count == 2)
        // A loop that slept for long gets all entries once.
        #expect(wheel.take(nowMilliseconds: 5000).flatMap { $0 }.map(\.connection) == [3, 5])
        #expect(wheel.count == 0)
    }

    @Test func outputQueueKeepsOrderAndCounts() {
        var queue = OutputQueue()
        queue.append(SharedBytes(utf8: "abcdef"), offset: 2, isDroppable: true)
        queue.append(SharedBytes(utf8: "gh"), isDroppable: false)
        queue.append(SharedBytes(utf8: "ij"), isDroppable: true)
        #expect(queue.byteCount == 8)
        func front(_ most: Int) -> String {
            withUnsafeTemporaryAllocation(of: iovec.self, capacity: most) { vector in
                queue.withFront(vector) { pieces in
                    String(
                        decoding: pieces.flatMap { UnsafeRawBufferPointer(start: $0.iov_base, count: $0.iov_len) },
                        as: UTF8.self)
                }
            }
        }
        #expect(front(8) == "cdefghij")
        #expect(front(2) == "cdefgh")
        queue.removeSent(1)
        #expect(queue.dropUnsent(committedBytes: 0).map(\.bytes) == [Array("ij".utf8)])
        #expect(front(8) == "defgh")
        queue.removeSent(5)
        #expect(queue.isEmpty)
        #expect(queue.dropUnsent(committedBytes: 0).isEmpty)
    }

    /// Output that a TLS session has encrypted can't be dropped, although it does not count as sent.
    @Test func committedChunksStay() {
        var queue = OutputQueue()
        for text in ["abcd", "ef", "gh", "ij"] { queue.append(SharedBytes(utf8: text), isDroppable: true) }
        queue.removeSent(1)
        #expect(queue.dropUnsent(committedBytes: 4).map(\.bytes) == [Array("gh".utf8), Array("ij".utf8)])
        #expect(queue.byteCount == 5)
        #expect(queue.dropUnsent(committedBytes: 3).map(\.bytes) == [Array("ef".utf8)])
        #expect(queue.byteCount == 3)
    }

    @Test func datesAreThoseOfTheStandard() {
        var date = HTTPDate()
        date.update(to: 784_111_777)
        #expect(String(decoding: date.bytes, as: UTF8.self) == "Sun, 06 Nov 1994 08:49:37 GMT")
        date.update(to: 951_782_400)
        #expect(String(decoding: date.bytes, as: UTF8.self) == "Tue, 29 Feb 2000 00:00:00 GMT")
    }

    @Test func digits() {
        for value in [0, 7, 10, 99, 100, 12_345, UInt64.max] {
            var digits = DecimalDigits(value)
            #expect(digits.withBytes { String(decoding: $0, as: UTF8.self) } == String(value))
        }
    }

    @Test(arguments: [
        ("127.0.0.1", "127.0.0.1", true), ("127.8.9.1", "127.8.9.1", true), ("10.1.2.3", "10.1.2.3", false),
        ("::1", "::1", true), ("2001:db8::7", "2001:db8::7", false), ("::ffff:127.0.0.1", "127.0.0.1", true),
        ("::ffff:192.0.2.1", "192.0.2.1", false), ("[::1]", "::1", true),
    ]) func peers(_ host: String, _ text: String, _ isLoopback: Bool) throws {
        let (storage, _) = try #require(ListenAddress(host: host, port: 4711).makeSocketAddress())
        let peer = PeerAddress(storage)
        #expect(peer.host == text)
        #expect(peer.port == 4711)
        #expect(peer.isLoopback == isLoopback)
    }

    @Test func namesAreNoAddresses() {
        #expect(ListenAddress(host: "example.com", port: 1).makeSocketAddress() == nil)
        #expect(ListenAddress(host: "::1", port: 80).description == "[::1]:80")
    }

    @Test func postedWorkRunsInOrderAndTimersCanBeCancelled() throws {
        let server = try TestServer(TestServer.echo)
        let loop = server.server.loops[0]
        let seen = Notes<Int>()
        for number in 0..<1000 { loop.post { seen.add(number) } }
        eventually { seen.count == 1000 }
        #expect(seen.all == Array(0..<1000))
        #expect(!loop.isCurrent)
        let fired = Notes<String>()
        loop.post {
            fired.add(loop.isCurrent ? "current" : "elsewhere")
            let first = loop.schedule(afterMilliseconds: 1) { fired.add("cancelled") }
            loop.schedule(afterMilliseconds: 30) { fired.add("later") }
            loop.schedule(afterMilliseconds: 5) { fired.add("soon") }
            first.cancel()
            first.cancel()
        }
        eventually { fired.count == 3 }
        #expect(fired.all == ["current", "soon", "later"])
    }
}
