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
