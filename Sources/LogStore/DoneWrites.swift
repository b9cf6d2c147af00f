import Crypto
public import Tree

/// Which named writes are in the log, as far as somebody has looked. What it says is done is done for ever, as long as the
/// namespace keeps its history; what it doesn't know may be done nevertheless.
public struct DoneWrites: Sendable, Equatable {
    /// The writes of one writer.
    struct Known: Sendable, Equatable {
        /// In order, none touching another.
        var numbers: [ClosedRange<Int64>]
        /// The last entry among them, or a later one of the writer's.
        var seq: Int64
        /// Who used the writer first; nil where a gateway of an older version has noted it.
        var identity: WriterIdentity?
    }

    /// Of so many writers at most something is known; those of before are forgotten then.
    public static let capacity = 1_000

    private var writers: [String: Known] = [:]

    public init() {}

    public var isEmpty: Bool { writers.isEmpty }

    /// What became of a write.
    public enum Fate: Sendable, Equatable {
        /// It is in the log, as of this entry at the latest.
        case done(seq: Int64)
        /// A later one of its writer is in the log, and it isn't: it was refused when its turn was.
        case passedOver
    }

    /// What became of the write; nil where that is not known, as of one that comes for the first time.
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

    /// Whether it is known that writes under this writer are those of an identity.
    public func isOwned(_ writer: String, by identity: WriterIdentity) -> Bool { writers[writer]?.identity == identity }

    /// Whether anything is known of a writer.
    public func knows(_ writer: String) -> Bool { writers[writer] != nil }

    /// Whether it is known what became of one of the writes.
    public func knows(oneOf names: Set<WriteName>) -> Bool { names.contains { fate(of: $0) != nil } }

    /// Takes in what somebody has found out.
    public mutating func learn(_ found: DoneWrites) {
        if writers.count + found.writers.count > Self.capacity { writers.removeAll() }
        writers.merge(found.writers) { _, new in new }
    }

    /// - Parameter text: a multirange of PostgreSQL: `{[1,4),[7,8)}`. False where it is none.
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

/// Who writes under a name, as the database keeps it: callers with the same one are the same to security rules.
public struct WriterIdentity: Sendable, Hashable {
    /// Begins with 1 for one user, and with 0 for what many callers share.
    let bytes: [UInt8]

    private init(bytes: [UInt8]) { self.bytes = bytes }

    init?(stored bytes: [UInt8]) {
        guard !bytes.isEmpty else { return nil }
        self.bytes = bytes
    }

    /// Callers without a login.
    public static let nobody = WriterIdentity(bytes: [0, 0])
    /// Administrators, whom no rule judges.
    public static let administrator = WriterIdentity(bytes: [0, 1])

    /// A user, by what tells one from others.
    public static func user(_ text: String) -> WriterIdentity {
        WriterIdentity(bytes: [1] + Digest.sha256(Array("pathmirror writer\n\(text)".utf8)).prefix(16))
    }
}
