/// What a transaction of several namespaces has room for. A value.
struct JointRoom: Equatable, Sendable {
    var namespaces: Int
    var rows: Int
    var bytes: Int

    /// A batch is among them.
    mutating func take(rows: Int, bytes: Int) {
        namespaces -= 1
        self.rows -= rows
        self.bytes -= bytes
    }

    var isFull: Bool { namespaces <= 0 || rows <= 0 || bytes <= 0 }
}
