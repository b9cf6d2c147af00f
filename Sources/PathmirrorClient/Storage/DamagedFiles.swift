internal import SQLite

/// Files that were set aside because they were damaged: for somebody who wants to look at them, and not for ever.
enum DamagedFiles {
    /// So many of a database's are kept, the newest.
    static let mostKept = 3

    /// What a damaged file is called from now on. The time in milliseconds since 1970 has 13 digits until 2286.
    static func name(of path: String, at time: Int64) -> String { "\(path).damaged-\(time)" }

    /// Removes all but the newest.
    static func removeOld(of path: String) {
        let start = "\(path).damaged-"
        let times = PrivateFile.siblings(of: start).compactMap { Int64($0.dropFirst(start.count)) }
        for time in times.sorted().dropLast(mostKept) {
            let old = name(of: path, at: time)
            PrivateFile.remove(old)
            PrivateFile.remove(old + "-wal")
        }
    }
}
