import HTTPServer
import Testing
import Wire

@testable import Gateway

/// Tests of the frames of a group's events, which are created once per tag and shared.
@Suite struct TaggedFramesTests {
    private func events(_ seqs: Int64...) throws -> EncodedEvents {
        try #require(
            EncodedEvents(
                seqs.map { seq in
                    // The form in which `ServerMessage.push` leaves a message, before a tag is added.
                    EncodedEvents.Event(seq: seq, bytes: SharedBytes(Array("<\(seq)>".utf8)))
                }))
    }

    private func address(_ bytes: SharedBytes?) -> UnsafePointer<UInt8>? {
        bytes?.bytes.withUnsafeBufferPointer { $0.baseAddress }
    }

    @Test func oneTagIsMadeOnce() throws {
        var frames = TaggedFrames(try events(1, 2))
        let first = frames.frames(after: 0, tag: nil, WebSocketSessionTransport.self)
        let second = frames.frames(after: 0, tag: nil, WebSocketSessionTransport.self)
        #expect(first != nil && address(first) == address(second))
    }

    @Test func tagsHaveFramesOfTheirOwn() throws {
        var frames = TaggedFrames(try events(1))
        let tags: [Int64?] = [nil, 1, 2, 1, nil, 2]
        let made = tags.map { frames.frames(after: 0, tag: $0, WebSocketSessionTransport.self) }
        #expect(Set(made.map { $0?.bytes }).count == 3)
        #expect(address(made[1]) == address(made[3]))
        #expect(address(made[0]) == address(made[4]))
        #expect(address(made[2]) == address(made[5]))
    }

    /// Checks that a client that has seen some of the events is sent only the rest, in frames that are not shared.
    @Test func partsAreNotShared() throws {
        var frames = TaggedFrames(try events(1, 2, 3))
        let first = frames.frames(after: 0, tag: nil, WebSocketSessionTransport.self)
        let whole = try #require(first)
        let second = frames.frames(after: 2, tag: nil, WebSocketSessionTransport.self)
        let rest = try #require(second)
        #expect(whole.bytes.count > rest.bytes.count)
        #expect(String(decoding: rest.bytes, as: UTF8.self).contains("<3>"))
        #expect(!String(decoding: rest.bytes, as: UTF8.self).contains("<2>"))
        let again = frames.frames(after: 0, tag: nil, WebSocketSessionTransport.self)
        #expect(address(again) == address(whole))
    }

    @Test func nothingNewIsNothing() throws {
        var frames = TaggedFrames(try events(1, 2))
        let none = [
            frames.frames(after: 2, tag: nil, WebSocketSessionTransport.self),
            frames.frames(after: 9, tag: 4, LongPollTransport.self),
        ]
        #expect(none.allSatisfy { $0 == nil })
    }

    /// Checks that polls are answered with text, and that this text is not mistaken for frames.
    @Test func transportsDoNotMix() throws {
        var frames = TaggedFrames(try events(1, 2))
        let framed = frames.frames(after: 0, tag: nil, WebSocketSessionTransport.self)
        let socket = try #require(framed)
        let polled = frames.frames(after: 0, tag: nil, LongPollTransport.self)
        let poll = try #require(polled)
        let relayed = frames.frames(after: 0, tag: nil, RelayedWebSocketTransport.self)
        #expect(address(relayed) == address(socket))
        #expect(poll.bytes != socket.bytes)
        #expect(poll.bytes.first == UInt8(ascii: "<"))
        #expect(poll.bytes.filter { $0 == UInt8(ascii: ",") }.count >= 1, "one message behind another")
    }
}
