public import ClientCore
import Runtime

/// Records a transport's reports about a connection, for a test to wait for.
public final class ChannelRecorder: Sendable {
    public struct Seen: Sendable {
        public var isOpen = false
        public var texts: [[UInt8]] = []
        public var progress = 0
        public var closures: [TransportClosure] = []
        /// The number of reports after the end.
        public var late = 0
        public var byteCount = 0
    }

    private let seen = Condition(Seen())
    private let keeps: Bool

    /// - Parameter keepsTexts: Whether texts are kept. If false, only bytes are counted.
    public init(keepsTexts: Bool = true) { keeps = keepsTexts }

    public func take(_ event: TransportEvent) {
        seen.broadcast { seen in
            if !seen.closures.isEmpty { seen.late += 1 }
            switch event {
            case .opened: seen.isOpen = true
            case .received(let text):
                seen.byteCount += text.count
                if keeps { seen.texts.append(text) }
            case .progress: seen.progress += 1
            case .closed(let closure): seen.closures.append(closure)
            }
        }
    }

    public var now: Seen { seen.withLock { $0 } }

    /// Waits until the condition holds. Returns false after half a minute.
    public func wait(until isSo: (Seen) -> Bool) -> Bool {
        seen.wait(milliseconds: 30_000) { isSo($0) ? true : nil } ?? false
    }

    /// Waits for the end of the connection. Returns nil after half a minute.
    public func waitForClosure() -> TransportClosure? {
        _ = wait { !$0.closures.isEmpty }
        return now.closures.first
    }

    public func waitForTexts(_ count: Int) -> [String] {
        _ = wait { $0.texts.count >= count || !$0.closures.isEmpty }
        return now.texts.map { String(decoding: $0, as: UTF8.self) }
    }
}
