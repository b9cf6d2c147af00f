import Tree
import Wire

/// About how many bytes of memory what was parsed takes, besides the text.
enum ParsedSize {
    /// A leaf with its key and its part of the nodes above, as the memory benchmark has it.
    private static let bytesPerRow = 120
    /// A change's path, beside its value.
    private static let bytesPerChange = 200

    static func estimate(_ message: ClientMessage) -> Int {
        guard case .request(let request) = message else { return 0 }
        return switch request.action {
        case .put(_, let value, _, _): estimate(value.node)
        case .onDisconnectPut(_, let node): estimate(node)
        case .merge(_, let changes, _, _, _), .onDisconnectMerge(_, let changes): estimate(changes)
        case .listen(_, _, let compound): (compound?.hashes.count ?? 0) * bytesPerChange
        default: 0
        }
    }

    static func estimate(_ node: Node) -> Int { node.rowCount * bytesPerRow }

    static func estimate(_ changes: [Change]) -> Int {
        changes.reduce(0) { $0 + bytesPerChange + estimate($1.value) }
    }
}
