import Tree

/// What gateways tell one another about turns: `turn asks|done NAMESPACE PATH`.
struct TurnNotice: Equatable {
    let kind: TransactionLine.Notice
    let place: TransactionPlace

    init(_ kind: TransactionLine.Notice, _ place: TransactionPlace) {
        self.kind = kind
        self.place = place
    }

    /// Nil when it is something else.
    init?(_ text: String) {
        let parts = text.split(separator: " ", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 4, parts[0] == "turn", let namespace = Int64(parts[2]) else { return nil }
        switch parts[1] {
        case "asks": kind = .asks
        case "done": kind = .isDone
        default: return nil
        }
        place = TransactionPlace(namespace: namespace, path: Path(splitting: parts[3]))
    }

    var text: String {
        let verb =
            switch kind {
            case .asks: "asks"
            case .isDone: "done"
            }
        return "turn \(verb) \(place.namespace) \(place.path)"
    }
}
