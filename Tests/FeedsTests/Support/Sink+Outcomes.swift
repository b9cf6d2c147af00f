import Feeds
import Runtime

extension Sink {
    /// Delivers and waits; nothing when no outcome comes.
    func outcomes(_ messages: [SinkMessage]) -> [SinkOutcome] {
        let outcome = Condition<[SinkOutcome]?>(nil)
        deliver(messages) { outcomes in outcome.broadcast { $0 = outcomes } }
        return outcome.wait(milliseconds: 60_000) { $0 } ?? []
    }
}
