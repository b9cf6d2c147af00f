import Runtime

/// One delivery of a sink that sends messages one by one: drives their lanes until all are settled.
final class LaneDelivery: Sendable {
    /// Sends one message, and tells once what became of it, from any thread.
    typealias Send = @Sendable (SinkMessage, @escaping @Sendable (SinkOutcome) -> Void) -> Void
    typealias Completion = @Sendable ([SinkOutcome]) -> Void

    private let messages: [SinkMessage]
    private let lanes: MutexBox<KeyLanes>
    private let lastStart: Milliseconds
    private let send: Send
    private let completion: Completion

    /// - Parameters:
    ///   - startMilliseconds: how long messages are sent; what waits then is left for another delivery.
    private init(
        _ messages: [SinkMessage], isOneLane: Bool, startMilliseconds: Milliseconds, _ send: @escaping Send,
        _ completion: @escaping Completion
    ) {
        self.messages = messages
        lanes = MutexBox(KeyLanes(messages, isOneLane: isOneLane))
        lastStart = Clock.monotonicMilliseconds + startMilliseconds
        self.send = send
        self.completion = completion
    }

    static func begin(
        _ messages: [SinkMessage], isOneLane: Bool, startMilliseconds: Milliseconds, _ send: @escaping Send,
        _ completion: @escaping Completion
    ) {
        let delivery = LaneDelivery(
            messages, isOneLane: isOneLane, startMilliseconds: startMilliseconds, send, completion)
        guard !messages.isEmpty else { return completion([]) }
        for index in delivery.lanes.withLock({ $0.firsts }) { delivery.start(index) }
    }

    private func start(_ index: Int) {
        send(messages[index]) { outcome in self.settled(index, outcome) }
    }

    private func settled(_ index: Int, _ outcome: SinkOutcome) {
        let hasTime = Clock.monotonicMilliseconds < lastStart
        let (next, outcomes) = lanes.withLock { lanes in
            let wasSettled = lanes.settled != nil
            let next = lanes.settle(index, outcome, hasTime: hasTime)
            return (next, wasSettled ? nil : lanes.settled)
        }
        if let next { start(next) }
        if let outcomes { completion(outcomes) }
    }
}

/// The messages of one delivery in lanes: those of one key after one another, the lanes beside one another. A message is sent when
/// the one before it in its lane has arrived; where that one fails, the rest of its lane is not sent, so that no message of a
/// key can arrive before an earlier one. Pure.
struct KeyLanes: Sendable {
    private var outcomes: [SinkOutcome?]
    /// For each message the next one of its lane.
    private let following: [Int?]
    private var open: Int

    /// What is sent at first.
    let firsts: [Int]

    /// - Parameter isOneLane: true where all messages are in one order, whatever their keys.
    init(_ messages: [SinkMessage], isOneLane: Bool) {
        var following = [Int?](repeating: nil, count: messages.count)
        var firsts: [Int] = []
        var last: [String: Int] = [:]
        for (index, message) in messages.enumerated() {
            if let previous = last.updateValue(index, forKey: isOneLane ? "" : message.key) {
                following[previous] = index
            } else {
                firsts.append(index)
            }
        }
        self.following = following
        self.firsts = firsts
        outcomes = .init(repeating: nil, count: messages.count)
        open = messages.count
    }

    /// Notes what became of a message and returns the one to be sent now, if any.
    ///
    /// - Parameter hasTime: whether another one may be sent; if not, the rest of the lane waits for the next delivery.
    mutating func settle(_ index: Int, _ outcome: SinkOutcome, hasTime: Bool) -> Int? {
        guard outcomes[index] == nil else { return nil }
        settle(index, outcome)
        guard let next = following[index] else { return nil }
        switch outcome {
        case .delivered where hasTime: return next
        // After a refusal, too: whether the key goes on is the feed's to say.
        case .delivered, .failed, .refused, .notSent, .unavailable: skip(from: next)
        }
        return nil
    }

    private mutating func settle(_ index: Int, _ outcome: SinkOutcome) {
        outcomes[index] = outcome
        open -= 1
    }

    private mutating func skip(from first: Int) {
        var next: Int? = first
        while let index = next {
            settle(index, .notSent)
            next = following[index]
        }
    }

    /// What became of each, in their order; nil while some are under way.
    var settled: [SinkOutcome]? { open == 0 ? outcomes.compactMap(\.self) : nil }
}
