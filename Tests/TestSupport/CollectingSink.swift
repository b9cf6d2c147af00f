public import Engine
import Runtime

/// Records the outcomes of writes, and writes that are answered twice.
public final class CollectingSink: WriteSink {
    private struct State {
        var outcomes: [UInt64: WriteOutcome] = [:]
        var order: [UInt64] = []
        var repeated: [UInt64] = []
    }
    private let state = Condition(State())

    public init() {}

    public func complete(_ outcomes: [(token: UInt64, outcome: WriteOutcome)]) {
        state.broadcast { state in
            for (token, outcome) in outcomes {
                if state.outcomes.updateValue(outcome, forKey: token) != nil { state.repeated.append(token) }
                state.order.append(token)
            }
        }
    }

    /// Waits for the outcome of one write. Returns nil after `seconds`.
    public func outcome(_ token: UInt64, seconds: Int64 = 30) -> WriteOutcome? {
        state.wait(milliseconds: seconds * 1_000) { $0.outcomes[token] }
    }

    /// Waits for the outcomes of `count` writes. Returns nil after `seconds`.
    public func all(_ count: Int, seconds: Int64 = 60) -> [UInt64: WriteOutcome]? {
        state.wait(milliseconds: seconds * 1_000) { $0.outcomes.count >= count ? $0.outcomes : nil }
    }

    /// The outcomes so far.
    public var outcomes: [UInt64: WriteOutcome] { state.withLock { $0.outcomes } }
    /// Tokens in the order of their answers.
    public var order: [UInt64] { state.withLock { $0.order } }
    /// Tokens that were answered more than once.
    public var repeated: [UInt64] { state.withLock { $0.repeated } }
}

extension WriteOutcome {
    /// The seq of a committed write.
    public var committedSeq: Int64? {
        if case .committed(let seq, _) = self { seq } else { nil }
    }

    /// The error of a failed write.
    public var failure: EngineError? {
        if case .failed(let error) = self { error } else { nil }
    }
}

extension LiveNamespace {
    /// Writes and waits for the outcome.
    public func write(_ write: Write, seconds: Int64 = 30) -> WriteOutcome? {
        let sink = CollectingSink()
        submit(write, to: sink, token: 1)
        return sink.outcome(1, seconds: seconds)
    }
}
