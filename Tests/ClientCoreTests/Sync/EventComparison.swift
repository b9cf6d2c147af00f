@testable import ClientCore

/// Compares the events that a step of the specification raised with the expected ones.
///
/// The events of one path come together, and the paths in the order of the specification. The events of each listener
/// come by kind: removed, added, moved, changed children, then the value. The events of a listener that begins come
/// exactly in the order of the specification.
struct EventComparison {
    struct Raised {
        let listener: RegistrationID
        let event: SpecificationCase.Event
    }

    private static let kinds = ["child_removed", "child_added", "child_moved", "child_changed", "value"]

    /// The differences, one text for each fault.
    private(set) var faults: [String] = []

    /// - Parameter isBeginning: the step begins or ends a listener.
    init(_ raised: [Raised], with expected: [SpecificationCase.Event], isBeginning: Bool) {
        compare(raised, expected, isBeginning)
        var last: [RegistrationID: SpecificationCase.Event] = [:]
        for one in raised {
            if let before = last.updateValue(one.event, forKey: one.listener),
                Self.rank(one.event) < Self.rank(before)
            {
                faults.append("\(one.event) comes after \(before)")
            }
        }
    }

    private mutating func compare(
        _ raised: [Raised], _ expected: [SpecificationCase.Event], _ isBeginning: Bool
    ) {
        var left = expected
        for event in raised.map(\.event) {
            let candidates = isBeginning ? left.prefix(1) : left.prefix { $0.path == left.first?.path }
            guard let index = candidates.firstIndex(where: { $0.matches(event) }) else {
                faults.append("unexpected \(event)")
                continue
            }
            left.remove(at: index)
        }
        for event in left { faults.append("missing \(event)") }
    }

    /// Returns the position of an event's kind. Unknown kinds come last; they match nothing.
    private static func rank(_ event: SpecificationCase.Event) -> Int {
        kinds.firstIndex(of: event.type) ?? kinds.count
    }
}
