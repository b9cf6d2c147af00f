import LogStore
import Runtime
import TestSupport
import Testing

@testable import Engine

/// Messages between gateways: see `PeerMailbox`.
@Suite struct PeerMailboxTests {
    @Test func ownMessagesAreNotHandedOn() throws {
        let mailbox = PeerMailbox()
        let heard = MutexBox<[String]>([])
        mailbox.onMessage { sender, text in heard.withLock { $0.append("\(sender): \(text)") } }
        mailbox.received(try #require(mailbox.message("own")))
        mailbox.received(try #require(PeerMessage(sender: "other", text: "theirs")))
        #expect(heard.withLock { $0 } == ["other: theirs"])
    }

    @Test func whatComesBeforeAnybodyListensIsLost() throws {
        let mailbox = PeerMailbox()
        let message = try #require(PeerMessage(sender: "other", text: "early"))
        mailbox.received(message)
        let heard = MutexBox(0)
        mailbox.onMessage { _, _ in heard.withLock { $0 += 1 } }
        #expect(heard.withLock { $0 } == 0)
        mailbox.received(message)
        #expect(heard.withLock { $0 } == 1)
    }

    /// Whoever hears may ask others: no lock is held.
    @Test func whoHearsMayListenAnew() throws {
        let mailbox = PeerMailbox()
        let heard = MutexBox<[Int]>([])
        mailbox.onMessage { [weak mailbox] _, _ in
            heard.withLock { $0.append(1) }
            mailbox?.onMessage { _, _ in heard.withLock { $0.append(2) } }
        }
        let message = try #require(PeerMessage(sender: "other", text: "x"))
        mailbox.received(message)
        mailbox.received(message)
        #expect(heard.withLock { $0 } == [1, 2])
    }

    @Test func everyGatewayHasANameOfItsOwn() {
        #expect(Set((0..<100).map { _ in PeerMailbox().id }).count == 100)
    }

    @Test func whatIsTooLongIsNotSent() {
        let mailbox = PeerMailbox()
        #expect(mailbox.message(String(repeating: "x", count: 9_000)) == nil)
        #expect(mailbox.message("short")?.sender == mailbox.id)
    }

    // MARK: Over a database

    private final class Heard: Sendable {
        private let texts = Condition<[String]>([])

        func add(_ text: String) { texts.broadcast { $0.append(text) } }

        /// The texts, once there are as many.
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
            for text in texts { engines[0].engine.tellPeers(text) }
            #expect(heard[1].wait(50) == texts)
            #expect(heard[2].wait(50) == texts)
            engines[2].engine.tellPeers("back")
            #expect(heard[0].wait(1) == ["back"])
            #expect(heard[1].wait(51).last == "back")
        }
    }

    /// What is too long is dropped, and holds nothing up.
    @Test func aLongMessageIsDropped() throws {
        try withEngines(2) { _, engines in
            let heard = Heard()
            engines[1].engine.onPeerMessage { _, text in heard.add(text) }
            #expect(eventually { engines.allSatisfy { $0.engine.health.isUp } })
            engines[0].engine.tellPeers(String(repeating: "x", count: 9_000))
            engines[0].engine.tellPeers("short")
            #expect(heard.wait(1) == ["short"])
        }
    }
}
