import Synchronization

/// Immutable bytes that many connections send without a copy: encode an event once, and `send` it to all its listeners.
public final class SharedBytes: Sendable {
    /// The number of queues that hold the bytes, and the budget that is charged meanwhile.
    private struct Waiting: Sendable {
        var queues = 0
        var budget: OutputBudget?
        var account: OutputBudget.Account?
    }

    /// The bytes. Must not be empty for sending.
    public let bytes: [UInt8]
    private let waiting = Mutex(Waiting())

    public init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// Creates the UTF-8 bytes of a text.
    public convenience init(utf8 text: String) {
        self.init(Array(text.utf8))
    }

    /// Number of bytes.
    public var count: Int { bytes.count }

    /// Records that a queue holds the bytes. The first queue charges the budget; returns false if the budget is
    /// exhausted.
    func enter(_ budget: OutputBudget, _ account: OutputBudget.Account) -> Bool {
        waiting.withLock { waiting in
            if waiting.queues == 0 {
                guard budget.take(bytes.count, for: account) else { return false }
                waiting.budget = budget
                waiting.account = account
            }
            waiting.queues += 1
            return true
        }
    }

    /// Records that a queue no longer holds the bytes.
    func leave() {
        waiting.withLock { waiting in
            guard waiting.queues > 0 else { return }
            waiting.queues -= 1
            guard waiting.queues == 0, let budget = waiting.budget, let account = waiting.account else { return }
            budget.giveBack(bytes.count, for: account)
            waiting.budget = nil
            waiting.account = nil
        }
    }
}
