import Engine
import Runtime
import Tree
import Wire

/// What was written out for GETs lately, for whoever asks for the same while it is the same. One for each loop.
///
/// What is kept is found by place and form and counts only for the very node that it was made of, which it keeps. So nothing has to
/// be told of writes, and a value that has changed is written out anew by the next GET. Whether somebody may read is no matter of
/// this: the rules are asked before.
///
/// There are two generations, each of half of the room: what is found moves to the younger one, and when that is full the older one
/// is forgotten.
final class WrittenValues {
    struct Place: Hashable {
        let namespace: ObjectIdentifier
        let path: Path
        let form: JSONForm
        let isPretty: Bool
        let isShallow: Bool
    }

    private struct Kept: Sendable {
        let node: Node
        let written: WrittenValue
        let bytes: Int
    }

    /// Shorter strings and smaller trees are written sooner than they are found.
    private static let leastBytes = 1_024
    private static let leastRows = 32
    /// What a row of a tree takes that nobody else may have any more, roughly.
    private static let rowBytes = 128
    /// What is kept of a value besides.
    private static let overheadBytes = 256

    private let generationBytes: Int
    private let heavyRows: Int
    private let workers: WorkerPool
    private var young: [Place: Kept] = [:]
    private var old: [Place: Kept] = [:]
    private var youngBytes = 0

    /// - Parameters:
    ///   - bytes: the room for all that is kept; 0 keeps nothing.
    ///   - heavyRows: trees of more rows are freed by a worker.
    init(bytes: Int, heavyRows: Int, _ workers: WorkerPool) {
        generationBytes = bytes / 2
        self.heavyRows = heavyRows
        self.workers = workers
    }

    /// Whether the answer to a GET of this node is worth keeping.
    func areWorthIt(_ node: Node) -> Bool {
        guard generationBytes > 0 else { return false }
        return switch node {
        case .string(let text): text.utf8.count >= Self.leastBytes
        case .branch(let branch): branch.rowCount >= Self.leastRows
        default: false
        }
    }

    /// What has been made of the node at the place.
    func find(_ place: Place, _ node: Node) -> WrittenValue? {
        if let kept = young[place] { return kept.node.isIdentical(to: node) ? kept.written : nil }
        guard let kept = old.removeValue(forKey: place) else { return nil }
        guard kept.node.isIdentical(to: node) else {
            free(kept)
            return nil
        }
        add(kept, at: place)
        return kept.written
    }

    /// Keeps what has been made of the node at the place, in place of what was there; nothing where its text was not wanted.
    func keep(_ written: WrittenValue, _ place: Place, _ node: Node) {
        guard written.text != nil else { return }
        let bytes = written.bytes + node.rowCount * Self.rowBytes + Self.overheadBytes
        if let before = young.removeValue(forKey: place) {
            youngBytes -= before.bytes
            free(before)
        }
        guard bytes <= generationBytes else { return }
        add(Kept(node: node, written: written, bytes: bytes), at: place)
    }

    private func add(_ kept: Kept, at place: Place) {
        if youngBytes + kept.bytes > generationBytes {
            let forgotten = old
            old = young
            young = [:]
            youngBytes = 0
            // Thousands of trees may go with it.
            if !forgotten.isEmpty { _ = workers.submit { withExtendedLifetime(forgotten) {} } }
        }
        young[place] = kept
        youngBytes += kept.bytes
    }

    private func free(_ kept: Kept) {
        guard kept.node.rowCount > heavyRows else { return }
        _ = workers.submit { withExtendedLifetime(kept) {} }
    }
}

extension WrittenValues.Place {
    /// What a GET asks for.
    init(_ call: Call, _ namespace: LiveNamespace) {
        self.init(
            namespace: ObjectIdentifier(namespace), path: call.path, form: call.parameters.form,
            isPretty: call.parameters.print == .pretty, isShallow: call.parameters.isShallow)
    }
}
