/// How the server's data is cut into rows: a subtree that is small enough when it is written is one row. A change within
/// it rewrites that row alone; a change elsewhere finds it in O(log n).
package struct StoreLayout: Sendable {
    /// The most leaves and priorities in one row.
    package var maxLeaves = 32
    /// The most bytes in one row, but for a leaf that is longer by itself.
    package var maxBytes = 2048
    /// Of a new file.
    package var pageSize = 4096

    package init() {}
}
