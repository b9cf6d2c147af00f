import Tree

/// Captured keys as one text: no key has a `/`.
enum RecordKey {
    static func text(_ keys: some Collection<Key>) -> String { keys.map(\.text).joined(separator: "/") }

    /// By bytes: a mark that begins a key is one character with the slash before it.
    static func keys(_ text: String) -> [Key] {
        text.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map {
            Key(String(Substring($0)))
        }
    }
}
