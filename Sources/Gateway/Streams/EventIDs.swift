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
        self.init(namespace, path, scope: rules.seq > 0 ? Self.scope(rules.seq) : Digest.sha256(rules.set.source))
    }

    private static func scope(_ rules: Int64) -> [UInt8] { Array("\(rules)".utf8) }

    private init(_ namespace: LiveNamespace, _ path: Path, scope: [UInt8]) {
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

    /// The seq of an id that was given under rules of behind `known`: a gateway that is behind has not heard of them. Only
    /// the next few entries are tried.
    static func seq(_ id: String, givenBehind known: Int64, _ namespace: LiveNamespace, _ path: Path) -> Int64? {
        guard let named = Int64(id.prefix { $0 != "-" }), named > known else { return nil }
        for rules in (known + 1)...min(named, known &+ maxUnheard) {
            if let seq = EventIDs(namespace, path, scope: scope(rules)).seq(id) { return seq }
        }
        return nil
    }

    /// How many entries may be the ones that made the rules of an id.
    private static let maxUnheard: Int64 = 64

    private func tag(_ seq: Int64) -> String {
        Base64URL.encode(Array(HMAC.sha256(Array("\(seq)".utf8), key: key).prefix(12)))
    }
}
