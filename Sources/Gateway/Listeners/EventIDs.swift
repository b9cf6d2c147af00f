import Crypto
import Engine
import Rules
import Synchronization
import Tree

/// Makes and reads the ids of a stream's events: `SEQ-TAG`.
///
/// A seq can be guessed, and behind a guessed one there may be values that were deleted before the reader came, or that
/// could not be read then. The tag shows that the id was given to a reader of this place, under these rules. It is made
/// with a key of the namespace, so it holds on every gateway and after a restart.
///
/// The tag also says which entry it was, by a part of its batch's id: after a failover or a restore another one may have
/// the same seq.
struct EventIDs: Sendable {
    private let key: [UInt8]
    private let hasher: EventHasher

    /// For the streams of a place, as long as these rules hold.
    ///
    /// - Parameter hasher: makes the tags; may be shared.
    init(
        _ namespace: LiveNamespace, _ path: Path, _ rules: RulesVersion, _ hasher: EventHasher = EventHasher()
    ) {
        // Rules that were stored have a seq to be known by, those of a file only their text.
        let scope = rules.seq > 0 ? Self.scope(rules.seq) : Digest.sha256(rules.set.source)
        self.init(namespace, path, scope: scope, hasher)
    }

    private static func scope(_ rules: Int64) -> [UInt8] { Array("\(rules)".utf8) }

    private init(_ namespace: LiveNamespace, _ path: Path, scope: [UInt8], _ hasher: EventHasher) {
        self.hasher = hasher
        key = hasher.sha256(scope + Array(path.description.utf8), key: namespace.streamKey)
    }

    /// An entry that a reader has seen.
    struct Seen: Equatable {
        let seq: Int64
        /// The beginning of the batch's id; nil where the reader has only named a seq.
        let mark: [UInt8]?

        /// Whether it is the entry that is of that batch.
        func isOf(_ batch: [UInt8]?) -> Bool { mark.map { $0 == EventIDs.mark(seq, batch) } ?? true }
    }

    /// What an id says that was given under rules of behind `known`: a gateway that is behind has not heard of them. Only
    /// the next few entries are tried.
    static func seen(_ id: String, givenBehind known: Int64, _ namespace: LiveNamespace, _ path: Path) -> Seen? {
        guard let named = Int64(id.prefix { $0 != "-" }), named > known else { return nil }
        let hasher = EventHasher()
        for rules in (known + 1)...min(named, known &+ maxUnheard) {
            if let seen = EventIDs(namespace, path, scope: scope(rules), hasher).seen(id) { return seen }
        }
        return nil
    }

    /// How many entries may be the ones that made the rules of an id.
    private static let maxUnheard: Int64 = 64

    func id(_ seq: Int64, _ batch: [UInt8]?) -> String {
        let mark = Self.mark(seq, batch)
        return "\(seq)-\(Base64URL.encode(mark + tag(seq, mark)))"
    }

    /// What an id says that was made here; nil for any other text.
    func seen(_ id: String) -> Seen? {
        let parts = id.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let seq = Int64(parts[0]), seq >= 0, let bytes = Base64URL.decode(parts[1].utf8),
            bytes.count == Self.markBytes + Self.tagBytes
        else { return nil }
        let mark = Array(bytes.prefix(Self.markBytes))
        guard Digest.isEqualInConstantTime(Array(bytes.dropFirst(Self.markBytes)), tag(seq, mark)) else { return nil }
        return Seen(seq: seq, mark: mark)
    }

    private static let markBytes = 6
    private static let tagBytes = 12

    /// The beginning of an entry's batch. Before the first entry, the namespace's key stands for the batch and is not to be told.
    private static func mark(_ seq: Int64, _ batch: [UInt8]?) -> [UInt8] {
        guard seq > 0, let batch else { return Array(repeating: 0, count: markBytes) }
        return Array(batch.prefix(markBytes))
    }

    private func tag(_ seq: Int64, _ mark: [UInt8]) -> [UInt8] {
        Array(hasher.sha256(Array("\(seq) ".utf8) + mark, key: key).prefix(Self.tagBytes))
    }
}

/// Makes the keyed hashes in the ids of events. Any thread; hashes that are made at the same time wait for one another.
final class EventHasher: Sendable {
    private let hasher = Mutex(HMACHasher())

    /// HMAC-SHA-256, 32 bytes.
    func sha256(_ bytes: [UInt8], key: [UInt8]) -> [UInt8] { hasher.withLock { $0.sha256(bytes, key: key) } }
}
