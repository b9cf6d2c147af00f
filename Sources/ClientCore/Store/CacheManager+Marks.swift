public import Tree
public import Wire

/// As of which entry of the server's log the queries' data is. A mark is committed together with the data, and is never of a
/// later entry than that.
extension CacheManager {
    /// The server has sent data of a listen.
    public func note(_ mark: LogMark?, of spec: QuerySpec) {
        let spec = Self.normalized(spec)
        guard isOpen(for: spec.path), var query = tracked[spec], query.mark != mark else { return }
        if mark != nil { hasMarks = true }
        query.mark = mark
        tracked.put(query)
        unsavedMarks.insert(spec)
    }

    /// Something has been put at a place that is not the server's, or of which it did not say as of when it is.
    public func forgetMarks(at path: Path) {
        guard hasMarks, isOpen(for: path) else { return }
        for query in tracked.overlapping(path) where query.mark != nil { note(nil, of: query.spec) }
    }

    func saveMarks() {
        guard !unsavedMarks.isEmpty else { return }
        for spec in unsavedMarks {
            if let query = tracked[spec] { store.save(query) }
        }
        unsavedMarks = []
    }
}
