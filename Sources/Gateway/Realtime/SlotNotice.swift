import Engine
import Tree

/// What gateways tell one another about slots: `turn asks|done NAMESPACE PATH`.
struct SlotNotice: Equatable {
    let kind: TransactionQueue.Notice
    let place: TransactionKey

    init(_ kind: TransactionQueue.Notice, _ place: TransactionKey) {
        self.kind = kind
        self.place = place
    }

    /// Nil when it is something else.
    ///
    /// - Parameter database: the one by which it came.
    init?(_ text: String, in database: Int) {
        let parts = text.split(separator: " ", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 4, parts[0] == "turn", let namespace = Int64(parts[2]) else { return nil }
        switch parts[1] {
        case "asks": kind = .asks
        case "done": kind = .isDone
        default: return nil
        }
        place = TransactionKey(
            namespace: NamespaceKey(database: database, id: namespace), path: Path(splitting: parts[3]))
    }

    var text: String {
        let verb =
            switch kind {
            case .asks: "asks"
            case .isDone: "done"
            }
        return "turn \(verb) \(place.namespace.id) \(place.path)"
    }
}
