import HTTPServer
import Runtime

@testable import Gateway

/// A realtime transport without a socket. Records its messages and is as slow as the test requests.
/// The session's loop writes to it; a test's thread reads.
final class ScriptedTransport: SessionTransport, Sendable {
    /// A call that the session has made.
    enum Event: Equatable, Sendable {
        case message(String)
        case ping
        case separation
        case close
        case abandon
    }

    private struct State {
        var events: [Event] = []
        /// The number of messages that the test has read.
        var taken = 0
        var queuedBytes = 0
        var maxMessageBytes = Int.max
        var ticks = 0
        var isCollecting = false
        /// The number of messages in each piece of buffered output.
        var pieces: [Int] = []
        var collected = 0

        var messages: [String] {
            events.compactMap { if case .message(let text) = $0 { text } else { nil } }
        }
    }
    private let state = Condition(State())

    // MARK: For tests

    var events: [Event] { state.withLock { $0.events } }
    var messages: [String] { state.withLock { $0.messages } }
    var ticks: Int { state.withLock { $0.ticks } }
    /// The number of messages that were sent together, for each piece.
    var pieces: [Int] { state.withLock { $0.pieces } }
    var isClosed: Bool { events.contains(.close) || events.contains(.abandon) }

    /// Sets the number of bytes that the client still has to read.
    func isAfter(bytes: Int) { state.withLock { $0.queuedBytes = bytes } }

    /// Sets the maximum size of messages. Longer ones cannot be sent.
    func takesAtMost(_ bytes: Int) { state.withLock { $0.maxMessageBytes = bytes } }

    /// Returns the next unread message, or nil after 20 seconds.
    func next() -> String? {
        state.wait(milliseconds: 20_000) { state in
            let messages = state.messages
            guard state.taken < messages.count else { return nil }
            state.taken += 1
            return messages[state.taken - 1]
        }
    }

    /// Waits for an event. Returns false after 20 seconds.
    func waits(for event: Event) -> Bool {
        state.wait(milliseconds: 20_000) { $0.events.contains(event) ? true : nil } ?? false
    }

    // MARK: RealtimeTransport

    static var isWebSocket: Bool { true }

    var queuedBytes: Int { state.withLock { $0.queuedBytes } }

    func send(_ message: [UInt8]) -> Bool {
        state.broadcast { state in
            guard message.count <= state.maxMessageBytes else { return false }
            state.events.append(.message(String(decoding: message, as: UTF8.self)))
            if state.isCollecting { state.collected += 1 }
            return true
        }
    }

    /// Sends messages, one per line.
    func send(frames: SharedBytes) {
        for line in frames.bytes.split(separator: UInt8(ascii: "\n")) { _ = send(Array(line)) }
    }

    static func frames(for messages: [[UInt8]]) -> SharedBytes? {
        SharedBytes(Array(messages.joined(separator: [UInt8(ascii: "\n")])))
    }

    func beginCollecting() -> Bool {
        state.withLock { state in
            guard !state.isCollecting else { return false }
            state.isCollecting = true
            state.collected = 0
            return true
        }
    }

    func sendCollected() {
        state.broadcast { state in
            state.isCollecting = false
            if state.collected > 0 { state.pieces.append(state.collected) }
        }
    }

    func ping() { add(.ping) }
    func close() { add(.close) }
    func abandon() { add(.abandon) }
    func separate() { add(.separation) }
    func tick() { state.withLock { $0.ticks += 1 } }

    private func add(_ event: Event) { state.broadcast { $0.events.append(event) } }
}
