import LogStore
import Tree

/// The range of present entries that `--from` and `--to` select.
struct LogRange {
    private let connection: LogConnection
    private let namespace: NamespaceRecord
    let first: Int64
    let last: Int64
    /// The warning that the log no longer reaches back to the requested beginning; else nil.
    let remark: String?
    /// The message for an empty range; else nil.
    let emptiness: String?

    /// The number of entries in the first step backwards. Later steps are larger.
    private static let firstWindow: Int64 = 1_000

    init(
        _ from: SeqOrTime?, _ to: SeqOrTime?, _ connection: LogConnection, _ namespace: NamespaceRecord
    ) throws {
        self.connection = connection
        self.namespace = namespace
        var (first, isCutShort) = (namespace.retainedFrom, false)
        switch from {
        case .seq(let seq)?:
            isCutShort = seq > 0 && seq < first
            first = max(first, seq)
        case let moment?:
            do {
                first = max(first, try moment.firstSeq(connection, namespace))
            } catch ReplayError.beforeTheLog {
                isCutShort = true
            }
        case nil: break
        }
        self.first = first
        let last: Int64
        switch to {
        case .seq(let seq)?: last = min(seq, namespace.head)
        case let moment?:
            do {
                last = try moment.seq(connection, namespace)
            } catch ReplayError.beforeTheLog {
                last = namespace.retainedFrom - 1
            }
        case nil: last = namespace.head
        }
        self.last = last
        remark =
            isCutShort ? "The log begins at seq \(namespace.retainedFrom), which is after --from." : nil
        let isEmpty = first > last && namespace.head >= namespace.retainedFrom
        emptiness =
            isEmpty && from != .head
            ? "There is no entry in this range: the log has \(namespace.retainedFrom) to \(namespace.head)." : nil
    }

    /// Calls `body` with each entry in order until it returns false.
    func read(_ body: (Entry) throws -> Bool) throws { try read(first, last, body) }

    /// Returns the newest `count` entries that touch the path, oldest first. Reads the log backwards, as far as needed.
    ///
    /// - Parameter looked: receives the number of entries examined.
    func newest(_ count: Int, touching path: Path?, looked: (Int64) -> Void = { _ in }) throws -> [Entry] {
        var found: [[Entry]] = []
        var lookedAt: Int64 = 0
        var (high, missing) = (last, count)
        var window = path == nil ? Int64(count) : Self.firstWindow
        while missing > 0, high >= first {
            let low = max(first, high - window + 1)
            var entries: [Entry] = []
            try read(low, high) { entry in
                if LogOptions.touches(entry, path) { entries.append(entry) }
                lookedAt += 1
                looked(lookedAt)
                return true
            }
            found.append(entries.suffix(missing))
            missing -= min(missing, entries.count)
            high = low - 1
            window = min(window * 2, 50_000)
        }
        return found.reversed().flatMap { $0 }
    }

    private func read(_ first: Int64, _ last: Int64, _ body: (Entry) throws -> Bool) throws {
        var log = LogFollower(namespace.id, at: LogPosition(seq: first - 1), through: last)
        while log.position.seq < last {
            switch try log.next(on: connection) {
            case .entries(let page):
                for logged in page where try !body(logged.entry) { return }
            // Pruned during this read.
            case .missing(let seqs, _): log.restart(at: LogPosition(seq: seqs.upperBound - 1))
            case .bulk, .rules, .rolledBack, .end: return
            }
        }
    }
}
