import Crypto
import Engine
import Rules
import Synchronization
import Tree

/// Creates and reads the ids of a stream's events: `SEQ-TAG`.
///
/// A client can guess a seq. The entries after a guessed seq may contain values that were deleted before the client
/// came, or that it was not allowed to read then. The tag proves that the id was issued to a reader of this path, under
/// these rules. Its key belongs to the namespace, so the id is valid on every gateway and after a restart.
///
/// The tag also identifies the entry by a part of its batch's id: after a failover or a restore another entry may have
/// the same seq.
struct EventIDs: Sendable {
    private let key: [UInt8]
    private let hasher: EventHasher

    /// Creates the ids for the streams of a path under the given rules.
    ///
    /// - Parameter hasher: creates the tags; may be shared.
    init(
        _ namespace: LiveNamespace, _ path: Path, _ rules: RulesVersion, _ hasher: EventHasher = EventHasher()
    ) {
        // Stored rules are identified by their seq, rules from a file by their text.
        let scope = rules.seq > 0 ? Self.scope(rules.seq) : Digest.sha256(rules.set.source)
        self.init(namespace, path, scope: scope, hasher)
    }

    private static func scope(_ rules: Int64) -> [UInt8] { Array("\(rules)".utf8) }

    private init(_ namespace: LiveNamespace, _ path: Path, scope: [UInt8], _ hasher: EventHasher) {
        self.hasher = hasher
        key = hasher.sha256(scope + Array(path.description.utf8), key: namespace.streamKey)
    }

    /// An entry that a client has seen.
    struct Seen: Equatable {
        let seq: Int64
        /// The first bytes of the batch's id, or nil if the client named only a seq.
        let mark: [UInt8]?

        /// Returns whether the entry belongs to the given batch.
        func isOf(_ batch: [UInt8]?) -> Bool { mark.map { $0 == EventIDs.mark(seq, batch) } ?? true }
    }

    /// Reads an id that was issued under rules newer than entry `known`. This gateway has not received those rules yet.
    /// Tries at most `maxUnheard` entries.
    static func seen(_ id: String, givenAfter known: Int64, _ namespace: LiveNamespace, _ path: Path) -> Seen? {
        guard let named = Int64(id.prefix { $0 != "-" }), named > known else { return nil }
        let hasher = EventHasher()
        for rules in (known + 1)...min(named, known &+ maxUnheard) {
            if let seen = EventIDs(namespace, path, scope: scope(rules), hasher).seen(id) { return seen }
        }
        return nil
    }

    /// Maximum number of entries that are tried as the source of an id's rules.
    private static let maxUnheard: Int64 = 64

    func id(_ seq: Int64, _ batch: [UInt8]?) -> String {
        let mark = Self.mark(seq, batch)
        return "\(seq)-\(Base64URL.encode(mark + tag(seq, mark)))"
    }

    /// Reads an id that was issued under these rules; returns nil for any other text.
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

    /// Returns the first bytes of an entry's batch. Before the first entry, the batch is the namespace's key, which
    /// must not be disclosed.
    private static func mark(_ seq: Int64, _ batch: [UInt8]?) -> [UInt8] {
        guard seq > 0, let batch else { return Array(repeating: 0, count: markBytes) }
        return Array(batch.prefix(markBytes))
    }

    private func tag(_ seq: Int64, _ mark: [UInt8]) -> [UInt8] {
        Array(hasher.sha256(Array("\(seq) ".utf8) + mark, key: key).prefix(Self.tagBytes))
    }
}

/// Computes the keyed hashes in the ids of events. Any thread; concurrent calls wait for each other.
final class EventHasher: Sendable {
    private let hasher = Mutex(HMACHasher())

    /// Returns the HMAC-SHA-256, 32 bytes.
    func sha256(_ bytes: [UInt8], key: [UInt8]) -> [UInt8] { hasher.withLock { $0.sha256(bytes, key: key) } }
}
