import Tree

/// The listens that the owner wants, with or without a connection.
struct WantedListens: Sendable {
    struct Listen: Sendable {
        let spec: QuerySpec
        let tag: ListenTag?
        /// The number of the request sent over the present connection; nil if none was sent.
        var number: Int64?
        /// Whether the request was answered.
        var isAnswered = false
        var isSent: Bool { number != nil }
    }

    /// The listens by increasing numbers, in the order in which they were added.
    private var bySerial: [UInt64: Listen] = [:]
    /// The few listens at each path.
    private var byPath: [Path: [UInt64]] = [:]
    private var tags: Set<ListenTag> = []
    private var lastSerial: UInt64 = 0

    var count: Int { bySerial.count }

    /// Adds a listen and returns its serial; returns nil if it is already wanted.
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

    /// Returns the listen without a tag for a path, or for a node above it. Checks each level, from the path up.
    func untagged(for path: Path) -> Listen? {
        var ancestor: Path? = path
        while let next = ancestor {
            for serial in byPath[next] ?? [] {
                if let listen = bySerial[serial], listen.tag == nil { return listen }
            }
            ancestor = next.parent
        }
        return nil
    }

    /// Returns the listens at a path whose query matches.
    func serials(at path: Path, where matches: (Query) -> Bool) -> [UInt64] {
        (byPath[path] ?? []).filter { serial in bySerial[serial].map { matches($0.spec.query) } ?? false }
    }

    mutating func noteSent(_ serial: UInt64, _ number: Int64) {
        bySerial[serial]?.number = number
        bySerial[serial]?.isAnswered = false
    }

    mutating func noteAnswered(_ serial: UInt64) { bySerial[serial]?.isAnswered = true }

    /// Returns all listens in order, and marks all of them as unsent.
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
