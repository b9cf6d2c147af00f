import Feeds
import Runtime

extension Sink {
    /// Delivers and waits. Returns an empty array if there are no outcomes in time.
    func results(of messages: [SinkMessage]) -> [SinkOutcome] {
        let outcome = Condition<[SinkOutcome]?>(nil)
        deliver(messages) { outcomes in outcome.broadcast { $0 = outcomes } }
        return outcome.wait(milliseconds: 60_000) { $0 } ?? []
    }
}
