import Feeds
import JSONText
import Runtime
import Tree

extension SinkMessage {
    static func order(
        _ number: Int, key: String = "o1", feed: String = "orders", json: String? = nil
    ) -> SinkMessage {
        SinkMessage(
            id: "default:\(number):0", namespace: "default", feed: feed, key: key, path: "/orders/\(key)",
            event: "created", seq: Int64(number), time: "2026-11-22T10:00:00.000Z", attempt: 1,
            json: Array((json ?? "{\"n\":\(number)}").utf8))
    }
}

extension Sink {
    /// Delivers and waits. Returns nil if there are no outcomes in time.
    func answers(_ messages: [SinkMessage]) -> [SinkOutcome]? {
        let outcomes = Condition<[SinkOutcome]?>(nil)
        deliver(messages) { result in outcomes.broadcast { $0 = result } }
        return outcomes.wait(milliseconds: 120_000) { $0 }
    }
}

extension SinkOutcome {
    var isFailure: Bool { if case .failed = self { true } else { false } }
    var isRefusal: Bool { if case .refused = self { true } else { false } }

    var reason: String {
        switch self {
        case .delivered, .notSent: ""
        case .failed(let reason, _), .refused(let reason), .unavailable(let reason): reason
        }
    }
}

/// Reads a definition from one member of a feed.
typealias ReadDefinition<Definition> = (SourceValue, String, inout [DefinitionError.Problem]) -> Definition?

/// Returns a definition, and its problems as `part: reason`.
func read<Definition>(
    _ text: String, _ part: String, _ read: ReadDefinition<Definition>
) throws -> (definition: Definition?, problems: [String]) {
    var problems: [DefinitionError.Problem] = []
    let definition = read(try SourceText.read(Array(text.utf8)), part, &problems)
    return (definition, problems.map { "\($0.part): \($0.reason)" })
}

/// Returns the JSON that a definition writes.
func written(_ write: (inout JSONWriter) -> Void) -> String {
    var writer = JSONWriter(form: .plain)
    write(&writer)
    return String(decoding: writer.bytes, as: UTF8.self)
}
