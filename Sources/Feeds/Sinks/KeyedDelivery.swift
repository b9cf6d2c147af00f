import Runtime

/// A delivery of a sink that sends messages individually. Sends the messages of different keys in parallel until all are settled.
final class KeyedDelivery: Sendable {
    /// Sends one message and reports its outcome once, on any thread.
    typealias Send = @Sendable (SinkMessage, @escaping @Sendable (SinkOutcome) -> Void) -> Void
    typealias Completion = @Sendable ([SinkOutcome]) -> Void

    private let messages: [SinkMessage]
    private let queues: MutexBox<KeyQueues>
    private let lastStart: Milliseconds
    private let send: Send
    private let completion: Completion

    /// - Parameters:
    ///   - startMilliseconds: How long messages may be started. Messages that still wait then are left to another delivery.
    private init(
        _ messages: [SinkMessage], isSequential: Bool, startMilliseconds: Milliseconds, _ send: @escaping Send,
        _ completion: @escaping Completion
    ) {
        self.messages = messages
        queues = MutexBox(KeyQueues(messages, isSequential: isSequential))
        lastStart = Clock.monotonicMilliseconds + startMilliseconds
        self.send = send
        self.completion = completion
    }

    static func begin(
        _ messages: [SinkMessage], isSequential: Bool, startMilliseconds: Milliseconds, _ send: @escaping Send,
        _ completion: @escaping Completion
    ) {
        let delivery = KeyedDelivery(
            messages, isSequential: isSequential, startMilliseconds: startMilliseconds, send, completion)
        guard !messages.isEmpty else { return completion([]) }
        for index in delivery.queues.withLock({ $0.firsts }) { delivery.start(index) }
    }

    private func start(_ index: Int) {
        send(messages[index]) { outcome in self.settled(index, outcome) }
    }

    private func settled(_ index: Int, _ outcome: SinkOutcome) {
        let hasTime = Clock.monotonicMilliseconds < lastStart
        let (next, outcomes) = queues.withLock { queues in
            let wasSettled = queues.settled != nil
            let next = queues.settle(index, outcome, hasTime: hasTime)
            return (next, wasSettled ? nil : queues.settled)
        }
        if let next { start(next) }
        if let outcomes { completion(outcomes) }
    }
}

/// The messages of one delivery, grouped by key. The messages of a key are sent one after the other, those of different keys in
/// parallel. A message is sent once its predecessor has arrived.
/// If the predecessor fails, the rest of the key is not sent, so that no message of a key arrives before an earlier one. Pure.
struct KeyQueues: Sendable {
    private var outcomes: [SinkOutcome?]
    /// The next message of the same key, for each message.
    private let following: [Int?]
    private var open: Int

    /// The messages to send first.
    let firsts: [Int]

    /// - Parameter isSequential: Whether all messages are in one order, regardless of their keys.
    init(_ messages: [SinkMessage], isSequential: Bool) {
        var following = [Int?](repeating: nil, count: messages.count)
        var firsts: [Int] = []
        var last: [String: Int] = [:]
        for (index, message) in messages.enumerated() {
            if let previous = last.updateValue(index, forKey: isSequential ? "" : message.key) {
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

    /// Records a message's outcome and returns the message to send now, if any.
    ///
    /// - Parameter hasTime: Whether another message may be sent. If not, the rest of the key waits for the next delivery.
    mutating func settle(_ index: Int, _ outcome: SinkOutcome, hasTime: Bool) -> Int? {
        guard outcomes[index] == nil else { return nil }
        settle(index, outcome)
        guard let next = following[index] else { return nil }
        switch outcome {
        case .delivered where hasTime: return next
        // The rest is also skipped after a refusal: the feed decides whether the key may continue.
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

    /// The outcomes of all messages in order, or nil while messages are in flight.
    var settled: [SinkOutcome]? { open == 0 ? outcomes.compactMap(\.self) : nil }
}
