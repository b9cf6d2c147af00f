import TestSupport
import Tree
import Wire

@testable import ClientCore

/// What each listen has been sent.
extension SyncModel {
    mutating func note(_ event: ChangeEvent, _ number: Int, of spec: QuerySpec, _ tag: ListenTag?) {
        guard let index = received.firstIndex(where: { $0.number == number }) else {
            // What comes late of a query is known by its tag, and dropped.
            return tag == nil ? noteLate(event, of: spec) : ()
        }
        received[index].isMixed = false
        received[index].node = Self.applying(event, to: received[index].node)
    }

    /// What comes late of a listen to all of a place tells filtered queries there more than they asked for, and listens to more
    /// of it ahead of their own data.
    private mutating func noteLate(_ event: ChangeEvent, of spec: QuerySpec) {
        for index in received.indices {
            let place = received[index].spec.path
            guard place.contains(spec.path) || spec.path.contains(place) else { continue }
            if received[index].tag != nil {
                received[index].isMixed = true
            } else if received[index].node != nil, place.contains(spec.path) {
                let event = event.moved(below: spec.path.relative(to: place))
                received[index].node = Self.applying(event, to: received[index].node)
            }
        }
    }

    private static func applying(_ event: ChangeEvent, to node: Node?) -> Node? {
        switch event {
        case .put(let place, let value):
            guard node != nil || place.isRoot else { return nil }
            return (node ?? .null).replacing(place, with: value)
        case .patch(let place, let changes):
            return changes.reduce(node) { $0?.replacing(place.appending($1.path), with: $1.value) }
        }
    }
}

extension ChangeEvent {
    /// The same as it is told of a place above.
    fileprivate func moved(below path: Path) -> ChangeEvent {
        switch self {
        case .put(let place, let node): .put(path.appending(place), node)
        case .patch(let place, let changes): .patch(path.appending(place), changes)
        }
    }
}
