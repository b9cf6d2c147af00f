import LogStore
import Runtime
import TestSupport
import Testing

@testable import Engine

/// Checks messages between gateways: see `PeerMailbox`.
@Suite struct PeerMailboxTests {
    private static let signature = PeerSignature(Secret(Array(repeating: 7, count: 32)))

    private func mailbox() -> PeerMailbox {
        let mailbox = PeerMailbox()
        mailbox.use(Self.signature)
        return mailbox
    }

    private func message(_ text: String, number: Int64 = 1, signature: PeerSignature = signature) throws -> PeerMessage
    {
        try #require(signature.message(from: "other", number: number, time: Clock.unixMilliseconds, text))
    }

    @Test func ownMessagesAreNotHandedOn() throws {
        let mailbox = mailbox()
        let heard = MutexBox<[String]>([])
        mailbox.onMessage { sender, text in heard.withLock { $0.append("\(sender): \(text)") } }
        mailbox.received(try #require(mailbox.message("own")))
        mailbox.received(try message("theirs"))
        #expect(heard.withLock { $0 } == ["other: theirs"])
    }

    @Test func changesBeforeTheFirstListenerAreLost() throws {
        let mailbox = mailbox()
        mailbox.received(try message("early"))
        let heard = MutexBox(0)
        mailbox.onMessage { _, _ in heard.withLock { $0 += 1 } }
        #expect(heard.withLock { $0 } == 0)
        mailbox.received(try message("late", number: 2))
        #expect(heard.withLock { $0 } == 1)
    }

    /// A listener may register another listener: no lock is held.
    @Test func notifiedListenersMaySubscribeAgain() throws {
        let mailbox = mailbox()
        let heard = MutexBox<[Int]>([])
        mailbox.onMessage { [weak mailbox] _, _ in
            heard.withLock { $0.append(1) }
            mailbox?.onMessage { _, _ in heard.withLock { $0.append(2) } }
        }
        mailbox.received(try message("x"))
        mailbox.received(try message("x", number: 2))
        #expect(heard.withLock { $0 } == [1, 2])
    }

    /// Every role that can connect to the database can forge messages, and repeat sent ones: both are dropped.
    @Test func forgedAndRepeatedMessagesAreDropped() throws {
        let mailbox = mailbox()
        let heard = MutexBox<[String]>([])
        mailbox.onMessage { _, text in heard.withLock { $0.append(text) } }
        mailbox.received(try message("forged", signature: PeerSignature(Secret(Array(repeating: 8, count: 32)))))
        mailbox.received(try message("first"))
        mailbox.received(try message("first"))
        mailbox.received(try message("third", number: 3))
        mailbox.received(try message("second", number: 2))
        let old = try #require(
            Self.signature.message(from: "other", number: 9, time: Clock.unixMilliseconds - 61_000, "old"))
        mailbox.received(old)
        #expect(heard.withLock { $0 } == ["first", "third"])
    }

    @Test func withoutAKeyNothingIsSentOrAccepted() throws {
        let mailbox = PeerMailbox()
        let heard = MutexBox(0)
        mailbox.onMessage { _, _ in heard.withLock { $0 += 1 } }
        mailbox.received(try message("x"))
        #expect(mailbox.message("x") == nil && heard.withLock { $0 } == 0)
    }

    @Test func everyGatewayHasANameOfItsOwn() {
        #expect(Set((0..<100).map { _ in PeerMailbox().id }).count == 100)
    }

    @Test func whatIsTooLongIsNotSent() {
        let mailbox = mailbox()
        #expect(mailbox.message(String(repeating: "x", count: 9_000)) == nil)
        #expect(mailbox.message("short")?.sender == mailbox.id)
    }

    // MARK: Over a database

    private final class Heard: Sendable {
        private let texts = Condition<[String]>([])

        func add(_ text: String) { texts.broadcast { $0.append(text) } }

        /// Returns the texts once there are `count` of them.
        func wait(_ count: Int) -> [String] {
            texts.wait(milliseconds: 20_000) { $0.count >= count ? $0 : nil } ?? texts.withLock { $0 }
        }
    }

    @Test func theOthersHearInOrder() throws {
        try withEngines(3) { _, engines in
            let heard = engines.map { _ in Heard() }
            for (engine, heard) in zip(engines, heard) { engine.engine.onPeerMessage { _, text in heard.add(text) } }
            // The tails listen once they are connected.
            #expect(eventually { engines.allSatisfy { $0.engine.health.isUp } })
            for engine in engines { _ = try engine.namespace() }
            let texts = (0..<50).map { "message \($0)" }
            for text in texts { engines[0].engine.notifyPeers(text) }
            #expect(heard[1].wait(50) == texts)
            #expect(heard[2].wait(50) == texts)
            engines[2].engine.notifyPeers("back")
            #expect(heard[0].wait(1) == ["back"])
            #expect(heard[1].wait(51).last == "back")
        }
    }

    /// A message that is too long is dropped, and delays no other.
    @Test func aLongMessageIsDropped() throws {
        try withEngines(2) { _, engines in
            let heard = Heard()
            engines[1].engine.onPeerMessage { _, text in heard.add(text) }
            #expect(eventually { engines.allSatisfy { $0.engine.health.isUp } })
            engines[0].engine.notifyPeers(String(repeating: "x", count: 9_000))
            engines[0].engine.notifyPeers("short")
            #expect(heard.wait(1) == ["short"])
        }
    }
}
