import Testing
import Tree

@testable import ClientCore

/// Checks that the specification's runner detects events in the wrong order.
@Suite struct EventComparisonTests {
    private func event(_ type: String, _ path: String, _ name: String? = nil) -> SpecificationCase.Event {
        SpecificationCase.Event(
            path: Path(splitting: path), type: type, name: name, previous: nil, data: .int(1))
    }

    private func faults(
        _ raised: [(UInt64, SpecificationCase.Event)], _ expected: [SpecificationCase.Event], isBeginning: Bool = false
    ) -> [String] {
        let raised = raised.map {
            EventComparison.Raised(listener: RegistrationID(rawValue: $0.0), event: $0.1)
        }
        return EventComparison(raised, with: expected, isBeginning: isBeginning).faults
    }

    @Test func eventsAsNamed() {
        let named = [
            event("child_removed", "a", "w"), event("child_added", "a", "x"), event("child_moved", "a", "y"),
            event("child_changed", "a", "y"), event("value", "a"), event("value", "b"),
        ]
        #expect(faults(named.map { (1, $0) }.dropLast() + [(2, named[5])], named) == [])
        #expect(faults(named.map { (1, $0) }.dropLast() + [(2, named[5])], named, isBeginning: true) == [])
    }

    /// Every pair of kinds is detected in the wrong order.
    @Test func eachListenersEventsComeByKind() {
        let types = ["child_removed", "child_added", "child_moved", "child_changed", "value"]
        for (index, first) in types.enumerated() {
            for second in types.dropFirst(index + 1) {
                let (early, late) = (event(first, "a", "x"), event(second, "a", "x"))
                #expect(faults([(1, late), (1, early)], [early, late]) == ["\(early) comes after \(late)"])
                #expect(faults([(1, early), (1, late)], [late, early]) == [])
                // Two listeners are notified independently.
                #expect(faults([(1, late), (2, early)], [early, late]) == [])
            }
        }
    }

    @Test func pathsComeTogetherAndInOrder() {
        let (first, second) = (event("child_added", "a", "x"), event("value", "a"))
        let other = event("value", "b")
        #expect(faults([(1, first), (2, other), (1, second)], [first, second, other]) != [])
        #expect(faults([(2, other), (1, first), (1, second)], [first, second, other]) != [])
        #expect(faults([(1, first), (1, second), (2, other)], [second, first, other]) == [])
    }

    @Test func aListenerBeginsInTheNamedOrder() {
        let (first, second) = (event("child_added", "a", "x"), event("child_added", "a", "y"))
        #expect(faults([(1, second), (1, first)], [first, second]) == [])
        #expect(faults([(1, second), (1, first)], [first, second], isBeginning: true) != [])
    }

    @Test func whatIsMissingOrTooMuch() {
        let one = event("value", "a")
        #expect(faults([], [one]) == ["missing \(one)"])
        #expect(faults([(1, one)], []) == ["unexpected \(one)"])
        #expect(faults([(1, one), (2, one)], [one]) == ["unexpected \(one)"])
    }
}
