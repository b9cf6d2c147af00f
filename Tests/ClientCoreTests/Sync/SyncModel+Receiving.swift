import TestSupport
import Tree
import Wire

@testable import ClientCore

/// The data sent to each listen.
extension SyncModel {
    /// Records that the server has answered a listen.
    ///
    /// - Parameter isNothing: whether the server has no data there, and has sent none.
    mutating func completed(_ spec: QuerySpec, _ tag: ListenTag?, _ number: Int, isNothing: Bool) {
        if isNothing { note(.put(.root, .null), number) }
        if let node = same.removeValue(forKey: number) { note(.put(.root, node), number) }
        forgetAccepted(.put(.root, .null), spec, number)
        overtaken.remove(number)
        complete.insert(number)
        if bareListens.answered(spec, tag: tag) {
            isWithinState = true
            follow(client.applyServer(.null, at: spec.path, tag: tag), "nothing of \(Self.text(spec))")
            isWithinState = false
        }
        follow(client.completeListen(spec, tag: tag), "complete \(Self.text(spec))")
        follow(transactions.dataChanged(at: spec.path), "changed")
    }

    mutating func note(_ event: ChangeEvent, _ number: Int) {
        guard let index = received.firstIndex(where: { $0.number == number }) else { return }
        received[index].node = Self.applying(event, to: received[index].node)
    }

    private static func applying(_ event: ChangeEvent, to node: Node?) -> Node? {
        switch event {
        case .put(let location, let value):
            guard node != nil || location.isRoot else { return nil }
            return (node ?? .null).replacing(location, with: value)
        case .patch(let location, let changes):
            return changes.reduce(node) { $0?.replacing(location.appending($1.path), with: $1.value) }
        }
    }
}
