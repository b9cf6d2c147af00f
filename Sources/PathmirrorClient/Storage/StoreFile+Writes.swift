internal import ClientCore
internal import SQLite
internal import Tree

/// Pending writes.
extension StoreFile {
    /// Returns the pending writes in order, without damaged ones.
    func pendingWrites() throws(SQLiteError) -> [PendingWrite] {
        let rows = try connection.prepare("SELECT id, path, content FROM writes ORDER BY id")
        var writes: [PendingWrite] = []
        while try rows.step() {
            if let write = Self.write(rows) { writes.append(write) }
        }
        return writes
    }

    /// Removes the damaged writes, so that they are reported only once. Returns their number.
    func removeDamagedWrites() throws(SQLiteError) -> Int {
        let damaged = try damagedWrites()
        for id in damaged { try removeWrite(id) }
        // A damaged row that its number does not find is in the wrong position of the table.
        if !damaged.isEmpty, try !damagedWrites().isEmpty { throw Self.damage("pending write") }
        return damaged.count
    }

    private func damagedWrites() throws(SQLiteError) -> [WriteID] {
        let rows = try connection.prepare("SELECT id, path, content FROM writes")
        var damaged: [WriteID] = []
        while try rows.step() {
            if Self.write(rows) == nil { damaged.append(WriteID(rawValue: rows.integer(0))) }
        }
        return damaged
    }

    /// Returns the writes of a damaged file that can still be read, starting from both ends.
    static func rescuedWrites(_ connection: SQLiteConnection) -> [PendingWrite] {
        var writes: [PendingWrite] = []
        for order in ["ASC", "DESC"] {
            do throws(SQLiteError) {
                let rows = try connection.prepare("SELECT id, path, content FROM writes ORDER BY id \(order)")
                while try rows.step() {
                    if let write = write(rows) { writes.append(write) }
                }
                return writes
            } catch {
                // The damage lies between the rows read from this end and those at the other end.
            }
        }
        return writes
    }

    func save(_ write: PendingWrite) throws(SQLiteError) {
        let put = try statement(.putWrite)
        try put.bind(1, write.id.rawValue)
        try put.bind(2, RowPath.encode(write.path))
        try put.bind(3, WriteCodec.encode(write))
        try put.run()
    }

    func removeWrite(_ id: WriteID) throws(SQLiteError) {
        let remove = try statement(.removeWrite)
        try remove.bind(1, id.rawValue)
        try remove.run()
    }

    /// Removes a write from a file that is otherwise unusable, and ignores errors.
    func removeWriteIfPossible(_ id: WriteID) { try? removeWrite(id) }

    // MARK: Sign-in state

    func signIn() throws(SQLiteError) -> SignInState {
        guard try integerFact("is_signed_in") == 1 else { return SignInState() }
        return SignInState(
            isSignedIn: true, subject: try textFact("subject"), expiresAt: try integerFact("token_expires_at"))
    }

    func save(_ signIn: SignInState) throws(SQLiteError) {
        try put(signIn.isSignedIn ? 1 : 0, as: "is_signed_in")
        try put(signIn.subject, as: "subject")
        try put(signIn.expiresAt, as: "token_expires_at")
    }

    private static func write(_ row: SQLiteStatement) -> PendingWrite? {
        // The numbers of later writes continue from this number.
        guard (try? sound(row.integer(0), "write's number")) != nil else { return nil }
        return WriteCodec.decode(row.rawBytes(2), id: WriteID(rawValue: row.integer(0)), path: row.rawBytes(1))
    }
}
