import LogStore
import Postgres
import Tree

/// Goes through some records with what the newest versions say of them, a slice at a time.
struct NewestRecords {
    /// A record and what it is; nil where it is too large to be kept.
    struct Found {
        let keys: [Key]
        let value: Node?
        /// Nothing is known of it.
        let isFirst: Bool
    }

    private let keys: [[Key]]
    private var position = 0
    private var count = MirrorVersions.keysAtOnce
    private var answer: PostgresResult?

    /// - Parameter answer: to `question` for these records, where it was asked already.
    init(_ keys: [[Key]], _ answer: PostgresResult? = nil) {
        self.keys = keys
        self.answer = answer
    }

    /// What is asked for the first of some records; nothing comes where they are large.
    static func question(_ keys: [[Key]], _ mirror: ActiveMirror, upTo bytes: Int) -> PipelineStep {
        mirror.versions.newestStep(
            of: keys.prefix(MirrorVersions.keysAtOnce).map { RecordKey.text($0) }, upTo: bytes, least: 0)
    }

    /// The next records; nil behind the last.
    mutating func next(_ mirror: ActiveMirror, _ writer: inout TableWriter) throws -> [Found]? {
        guard position < keys.count else { return nil }
        var found = try answer.map { try MirrorVersions.newest($0) } ?? []
        answer = nil
        if found.isEmpty {
            let some = keys[position..<min(position + count, keys.count)].map { RecordKey.text($0) }
            let step = mirror.versions.newestStep(of: some, upTo: MirrorVersions.bytesAtOnce)
            found = try writer.flush(asking: [(step, mirror)]).flatMap { try MirrorVersions.newest($0) }
        }
        let some = keys[position..<position + found.count]
        position += found.count
        count = MirrorVersions.count(after: found.count)
        return try zip(some, found).map {
            Found(keys: $0, value: try StoredRecord.decode($1?.record), isFirst: $1 == nil)
        }
    }
}
