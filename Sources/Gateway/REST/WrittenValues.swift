import Compression
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
    struct Place: Hashable, Sendable {
        let namespace: ObjectIdentifier
        let path: Path
        let form: JSONForm
        let isPretty: Bool
    }

    /// A node and what has been made of it.
    struct Kept: Sendable {
        let node: Node
        let written: WrittenValue
        /// What all of it takes of memory, as if nobody else had the node any more.
        let bytes: Int

        /// Looks at all of the node, as whoever has written it out has done. Nil where nothing was made of it.
        init?(_ node: Node, _ written: WrittenValue) {
            if written.isEmpty { return nil }
            self.node = node
            self.written = written
            bytes = node.heapBytes + written.bytes
        }
    }

    /// Shorter strings and smaller trees are written sooner than they are found.
    private static let leastBytes = 1_024
    private static let leastRows = 32
    /// Larger trees take longer to be freed than a loop may be held.
    private static let mostRows = 50_000
    /// What is kept besides.
    private static let overheadBytes = 256

    private let generationBytes: Int
    private let workers: WorkerPool
    private var young: [Place: Kept] = [:]
    private var old: [Place: Kept] = [:]
    private var youngBytes = 0

    /// - Parameters:
    ///   - bytes: the room for all that is kept; 0 keeps nothing.
    ///   - workers: free what is forgotten.
    init(bytes: Int, _ workers: WorkerPool) {
        generationBytes = bytes / 2
        self.workers = workers
    }

    /// Whether the answer to a GET of this node is worth keeping.
    func isWorthKeeping(_ node: Node) -> Bool {
        guard generationBytes > 0 else { return false }
        return switch node {
        case .string(let text): text.utf8.count >= Self.leastBytes
        case .branch(let branch): (Self.leastRows...Self.mostRows).contains(branch.rowCount)
        default: false
        }
    }

    /// What has been made of the node at the place.
    func find(_ place: Place, _ node: Node) -> WrittenValue? {
        if let kept = young[place] { return kept.node.isIdentical(to: node) ? kept.written : nil }
        guard let kept = old.removeValue(forKey: place), kept.node.isIdentical(to: node) else { return nil }
        add(kept, at: place)
        return kept.written
    }

    /// Keeps what has been made of a node at the place, in place of what was there.
    func keep(_ kept: Kept, at place: Place) {
        if let before = young.removeValue(forKey: place) { youngBytes -= Self.size(before, at: place) }
        if Self.size(kept, at: place) <= generationBytes { add(kept, at: place) }
    }

    private static func size(_ kept: Kept, at place: Place) -> Int { kept.bytes + place.path.byteCount + overheadBytes }

    private func add(_ kept: Kept, at place: Place) {
        let bytes = Self.size(kept, at: place)
        if youngBytes + bytes > generationBytes {
            let forgotten = old
            old = young
            young = [:]
            youngBytes = 0
            // Thousands of trees may go with it.
            if !forgotten.isEmpty { _ = workers.submit { withExtendedLifetime(forgotten) {} } }
        }
        young[place] = kept
        youngBytes += bytes
    }
}

extension WrittenValues.Place {
    /// What a GET asks for.
    init(_ call: Call, _ namespace: LiveNamespace) {
        self.init(
            namespace: ObjectIdentifier(namespace), path: call.path, form: call.parameters.form,
            isPretty: call.parameters.print == .pretty)
    }
}

/// What has been made of a value for answers, each when it was first asked for.
struct WrittenValue: Sendable {
    /// The value as JSON, in one form; nil while nobody has asked for it.
    private(set) var text: [UInt8]?
    /// The text packed by gzip; empty where that makes it no smaller, nil while nobody has asked for it.
    private var packed: [UInt8]?
    /// The value's entity tag.
    private(set) var tag: String?

    init(text: [UInt8]? = nil) { self.text = text }

    var isEmpty: Bool { text == nil && tag == nil }

    /// What it takes of memory.
    var bytes: Int { (text?.capacity ?? 0) + (packed?.capacity ?? 0) + (tag?.utf8.count ?? 0) }

    /// Whether an answer can be made without looking at the value.
    ///
    /// - Parameter packedFrom: texts of so many bytes and more are wanted packed; nil where none is.
    func suffices(packedFrom: Int?, tag wantsTag: Bool) -> Bool {
        guard let text, !wantsTag || tag != nil else { return false }
        return packed != nil || packedFrom.map { text.count < $0 } ?? true
    }

    mutating func text(_ make: () -> [UInt8]) -> [UInt8] {
        if let text { return text }
        let made = make()
        text = made
        return made
    }

    mutating func tag(_ make: () -> String) -> String {
        if let tag { return tag }
        let made = make()
        tag = made
        return made
    }

    /// The text packed by gzip; nil where that makes it no smaller, or there is no text.
    mutating func packedText() -> [UInt8]? {
        if packed == nil, let text {
            let made = Gzip.compress(text) ?? []
            // Of its own size: what it was packed into is as large as the text.
            packed = made.count < text.count ? Array(made[...]) : []
        }
        return packed.flatMap { $0.isEmpty ? nil : $0 }
    }
}
