import Compression
import Engine
import Runtime
import Tree
import Wire

/// The recently encoded values of GETs, for later requests of the same unchanged values. One for each loop.
///
/// An entry is found by path and form, and is valid only for the node that it was made from, which it retains. So
/// writes need not invalidate entries: after a change the next GET encodes the value again. The cache does not check
/// permissions; callers ask the rules first.
///
/// There are two generations, each with half of the budget: used entries move to the younger one, and when that is
/// full, the older one is dropped.
final class EncodedValueCache {
    struct CacheKey: Hashable, Sendable {
        let namespace: ObjectIdentifier
        let path: Path
        let form: JSONForm
        let isPretty: Bool
    }

    /// A node and its encodings.
    struct Kept: Sendable {
        let node: Node
        let written: WrittenValue
        /// The entry's memory in bytes, as if no other owner shared the node.
        let bytes: Int

        /// Visits the whole node, as encoding it has done. Returns nil if there is no encoding.
        init?(_ node: Node, _ written: WrittenValue) {
            if written.isEmpty { return nil }
            self.node = node
            self.written = written
            bytes = node.heapBytes + written.bytes
        }
    }

    /// Encoding shorter strings and smaller trees is faster than a lookup.
    private static let leastBytes = 1_024
    private static let leastRows = 32
    /// Releasing larger trees takes too long for a loop.
    private static let mostRows = 50_000
    /// Overhead of an entry in bytes.
    private static let overheadBytes = 256

    private let generationBytes: Int
    private let workers: WorkerPool
    private var young: [CacheKey: Kept] = [:]
    private var old: [CacheKey: Kept] = [:]
    private var youngBytes = 0

    /// - Parameters:
    ///   - bytes: the budget of all entries; 0 disables the cache.
    ///   - workers: release dropped entries.
    init(bytes: Int, _ workers: WorkerPool) {
        generationBytes = bytes / 2
        self.workers = workers
    }

    /// Returns whether the answer to a GET of this node is worth caching.
    func isWorthKeeping(_ node: Node) -> Bool {
        guard generationBytes > 0 else { return false }
        return switch node {
        case .string(let text): text.utf8.count >= Self.leastBytes
        case .branch(let branch): (Self.leastRows...Self.mostRows).contains(branch.rowCount)
        default: false
        }
    }

    /// Returns the cached encodings of the node.
    func find(_ key: CacheKey, _ node: Node) -> WrittenValue? {
        if let kept = young[key] { return kept.node.isIdentical(to: node) ? kept.written : nil }
        guard let kept = old.removeValue(forKey: key), kept.node.isIdentical(to: node) else { return nil }
        add(kept, at: key)
        return kept.written
    }

    /// Stores a node's encodings, replacing the previous entry.
    func keep(_ kept: Kept, at key: CacheKey) {
        if let before = young.removeValue(forKey: key) { youngBytes -= Self.size(before, at: key) }
        if Self.size(kept, at: key) <= generationBytes { add(kept, at: key) }
    }

    private static func size(_ kept: Kept, at key: CacheKey) -> Int { kept.bytes + key.path.byteCount + overheadBytes }

    private func add(_ kept: Kept, at key: CacheKey) {
        let bytes = Self.size(kept, at: key)
        if youngBytes + bytes > generationBytes {
            let forgotten = old
            old = young
            young = [:]
            youngBytes = 0
            // Releasing thousands of trees takes too long for a loop.
            if !forgotten.isEmpty { _ = workers.submit { withExtendedLifetime(forgotten) {} } }
        }
        young[key] = kept
        youngBytes += bytes
    }
}

extension EncodedValueCache.CacheKey {
    /// Creates the key of a GET's value.
    init(_ call: Call, _ namespace: LiveNamespace) {
        self.init(
            namespace: ObjectIdentifier(namespace), path: call.path, form: call.parameters.form,
            isPretty: call.parameters.print == .pretty)
    }
}

/// The encodings of a value, each created on first use.
struct WrittenValue: Sendable {
    /// The value as JSON, in one form; nil until first use.
    private(set) var text: [UInt8]?
    /// The gzip-compressed text. Empty if compression does not make it smaller; nil until first use.
    private var compressed: [UInt8]?
    /// The value's ETag.
    private(set) var tag: String?

    init(text: [UInt8]? = nil) { self.text = text }

    var isEmpty: Bool { text == nil && tag == nil }

    /// Memory of the encodings in bytes.
    var bytes: Int { (text?.capacity ?? 0) + (compressed?.capacity ?? 0) + (tag?.utf8.count ?? 0) }

    /// Returns whether an answer needs no further encoding.
    ///
    /// - Parameter compressedFrom: minimum size in bytes from which texts are compressed; nil for no compression.
    func suffices(compressedFrom: Int?, tag wantsTag: Bool) -> Bool {
        guard let text, !wantsTag || tag != nil else { return false }
        return compressed != nil || compressedFrom.map { text.count < $0 } ?? true
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

    /// Returns the gzip-compressed text; nil if compression does not make it smaller, or there is no text.
    mutating func compressedText() -> [UInt8]? {
        if compressed == nil, let text {
            let made = Gzip.compress(text) ?? []
            // Copies the bytes, because the compressor's buffer is as large as the text.
            compressed = made.count < text.count ? Array(made[...]) : []
        }
        return compressed.flatMap { $0.isEmpty ? nil : $0 }
    }
}
