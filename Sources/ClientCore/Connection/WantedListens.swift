import Tree

/// The listens that the owner wants, whether there is a connection or not.
struct WantedListens: Sendable {
    struct Listen: Sendable {
        let spec: QuerySpec
        let tag: ListenTag?
        /// The number of the request that was sent over the connection that stands; nil where none was.
        var number: Int64?
        /// Whether that was answered.
        var isAnswered = false
        var isSent: Bool { number != nil }
    }

    /// By a number that grows: the order in which they were wanted.
    private var bySerial: [UInt64: Listen] = [:]
    /// The few listens at each place.
    private var byPath: [Path: [UInt64]] = [:]
    private var tags: Set<ListenTag> = []
    private var lastSerial: UInt64 = 0

    var count: Int { bySerial.count }

    /// Nil where it is wanted already.
    mutating func add(_ spec: QuerySpec, tag: ListenTag?) -> UInt64? {
        guard find(spec, tag: tag) == nil else { return nil }
        lastSerial += 1
        bySerial[lastSerial] = Listen(spec: spec, tag: tag)
        byPath[spec.path, default: []].append(lastSerial)
        if let tag { tags.insert(tag) }
        return lastSerial
    }

    mutating func remove(_ spec: QuerySpec, tag: ListenTag?) -> Listen? {
        find(spec, tag: tag).flatMap { remove($0) }
    }

    mutating func remove(_ serial: UInt64) -> Listen? {
        guard let listen = bySerial.removeValue(forKey: serial) else { return nil }
        byPath[listen.spec.path]?.removeAll { $0 == serial }
        if byPath[listen.spec.path]?.isEmpty == true { byPath[listen.spec.path] = nil }
        if let tag = listen.tag { tags.remove(tag) }
        return listen
    }

    subscript(serial: UInt64) -> Listen? { bySerial[serial] }

    func has(_ tag: ListenTag) -> Bool { tags.contains(tag) }

    /// The listen without a tag that is for the place, or for one above it. Costs a look at each level, from the place up.
    func untagged(for path: Path) -> Listen? {
        var place: Path? = path
        while let next = place {
            for serial in byPath[next] ?? [] {
                if let listen = bySerial[serial], listen.tag == nil { return listen }
            }
            place = next.parent
        }
        return nil
    }

    /// The listens at a place that have one of these queries.
    func serials(at path: Path, where matches: (Query) -> Bool) -> [UInt64] {
        (byPath[path] ?? []).filter { serial in bySerial[serial].map { matches($0.spec.query) } ?? false }
    }

    mutating func noteSent(_ serial: UInt64, _ number: Int64) {
        bySerial[serial]?.number = number
        bySerial[serial]?.isAnswered = false
    }

    mutating func noteAnswered(_ serial: UInt64) { bySerial[serial]?.isAnswered = true }

    /// All of them, in order; none counts as sent any more.
    mutating func beginAgain() -> [UInt64] {
        let serials = bySerial.keys.sorted()
        for serial in serials { bySerial[serial]?.number = nil }
        return serials
    }

    private func find(_ spec: QuerySpec, tag: ListenTag?) -> UInt64? {
        (byPath[spec.path] ?? []).first { serial in
            bySerial[serial].map { $0.spec.query == spec.query && $0.tag == tag } ?? false
        }
    }
}
