import Crypto
public import Tree

/// The named writes that are known to be in the log. A write that is known to be done stays done as long as the
/// namespace keeps its history. A write that is not known may be done nevertheless.
public struct DoneWrites: Sendable, Equatable {
    /// The writes of one writer.
    struct Known: Sendable, Equatable {
        /// The numbers of the writes that are done, in ascending order, without adjacent ranges.
        var numbers: [ClosedRange<Int64>]
        /// The seq of the last entry among the writes, or of a later entry of the writer.
        var seq: Int64
        /// The identity that used the writer first, or nil if a gateway of an older version recorded the writer.
        var identity: WriterIdentity?
    }

    /// The maximum number of known writers. When it is exceeded, all earlier writers are forgotten.
    public static let capacity = 1_000

    private var writers: [String: Known] = [:]

    public init() {}

    public var isEmpty: Bool { writers.isEmpty }

    /// The outcome of a named write.
    public enum Fate: Sendable, Equatable {
        /// The write is in the log, at this seq or before it.
        case done(seq: Int64)
        /// A later write of the writer is in the log and this write is not, because it was rejected when its turn came.
        case passedOver
    }

    /// Returns the outcome of the write, or nil if it is unknown, as for a write that arrives for the first time.
    public func fate(of name: WriteName) -> Fate? {
        guard let known = writers[name.writer], let greatest = known.numbers.last?.upperBound,
            name.number <= greatest
        else { return nil }
        var low = 0
        var high = known.numbers.count
        while low < high {
            let middle = (low + high) / 2
            let range = known.numbers[middle]
            if range.contains(name.number) { return .done(seq: known.seq) }
            if range.upperBound < name.number { low = middle + 1 } else { high = middle }
        }
        return .passedOver
    }

    /// Whether the writer is known to belong to the identity.
    public func isOwned(_ writer: String, by identity: WriterIdentity) -> Bool { writers[writer]?.identity == identity }

    /// Whether any write of the writer is known.
    public func knows(_ writer: String) -> Bool { writers[writer] != nil }

    /// Whether the outcome of at least one of the writes is known.
    public func knows(oneOf names: Set<WriteName>) -> Bool { names.contains { fate(of: $0) != nil } }

    /// Adds writes that were found in the log.
    public mutating func learn(_ found: DoneWrites) {
        if writers.count + found.writers.count > Self.capacity { writers.removeAll() }
        writers.merge(found.writers) { _, new in new }
    }

    /// Replaces the known writes of a writer. Returns false if `text` is malformed.
    ///
    /// - Parameter text: a PostgreSQL multirange, such as `{[1,4),[7,8)}`.
    mutating func set(_ writer: String, multirange text: String, seq: Int64, _ identity: WriterIdentity?) -> Bool {
        guard text.hasPrefix("{"), text.hasSuffix("}") else { return false }
        var numbers: [ClosedRange<Int64>] = []
        for part in text.dropFirst().dropLast().split(separator: ")") {
            let bounds = part.drop { $0 == "," }.dropFirst().split(separator: ",")
            guard bounds.count == 2, let first = Int64(bounds[0]), let end = Int64(bounds[1]), first < end else {
                return false
            }
            numbers.append(first...(end - 1))
        }
        writers[writer] = Known(numbers: numbers, seq: seq, identity: identity)
        return true
    }
}

/// The identity of a named writer, as the database stores it. Security rules treat callers with the same identity
/// alike.
public struct WriterIdentity: Sendable, Hashable {
    /// The first byte is 1 for a single user, and 0 for an identity that many callers share.
    let bytes: [UInt8]

    private init(bytes: [UInt8]) { self.bytes = bytes }

    init?(stored bytes: [UInt8]) {
        guard !bytes.isEmpty else { return nil }
        self.bytes = bytes
    }

    /// Callers without a login.
    public static let anonymous = WriterIdentity(bytes: [0, 0])
    /// Administrators, to which rules do not apply.
    public static let administrator = WriterIdentity(bytes: [0, 1])

    /// Returns the identity of a user.
    ///
    /// - Parameter text: a text that is unique to the user. The database stores only a digest.
    public static func user(_ text: String) -> WriterIdentity {
        WriterIdentity(bytes: [1] + Digest.sha256(Array("pathmirror writer\n\(text)".utf8)).prefix(16))
    }
}
