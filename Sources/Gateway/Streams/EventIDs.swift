import Crypto
import Engine
import Rules
import Tree

/// Makes and reads the ids of a stream's events: `SEQ-TAG`.
///
/// A seq can be guessed, and behind a guessed one there may be values that were deleted before the reader came, or that
/// could not be read then. The tag shows that the id was given to a reader of this place, under these rules. It is made
/// with a key of the namespace, so it holds on every gateway and after a restart.
struct EventIDs: Sendable {
    private let key: [UInt8]

    /// For the streams of a place, as long as these rules hold.
    init(_ namespace: LiveNamespace, _ path: Path, _ rules: RulesVersion) {
        // Rules that were stored have a seq to be known by, those of a file only their text.
        let scope = rules.seq > 0 ? Array("\(rules.seq)".utf8) : Digest.sha256(rules.set.source)
        key = HMAC.sha256(scope + Array(path.description.utf8), key: namespace.streamKey)
    }

    func id(_ seq: Int64) -> String { "\(seq)-\(tag(seq))" }

    /// The seq of an id that was made here; nil for any other text.
    func seq(_ id: String) -> Int64? {
        let parts = id.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, !parts[1].isEmpty, let seq = Int64(parts[0]), seq >= 0,
            Digest.isEqualInConstantTime(Array(parts[1].utf8), Array(tag(seq).utf8))
        else { return nil }
        return seq
    }

    private func tag(_ seq: Int64) -> String {
        Base64URL.encode(Array(HMAC.sha256(Array("\(seq)".utf8), key: key).prefix(12)))
    }
}
