internal import ClientCore
internal import SQLite
internal import Tree

/// Pending writes.
extension StoreFile {
    /// In order. Those whose bytes are damaged are left out.
    func pendingWrites() throws(SQLiteError) -> [PendingWrite] {
        let rows = try connection.prepare("SELECT id, path, content FROM writes ORDER BY id")
        var writes: [PendingWrite] = []
        while try rows.step() {
            if let write = Self.write(rows) { writes.append(write) }
        }
        return writes
    }

    /// Removes the writes that can't be read, so that they are told of once. Returns how many there were.
    func removeDamagedWrites() throws(SQLiteError) -> Int {
        let damaged = try damagedWrites()
        for id in damaged { try removeWrite(id) }
        // What is not found by its number is out of its place.
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

    /// Whatever can still be read of a damaged file's writes, from both ends.
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
                // The damage is between what was read and what the other end gives.
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

    /// For a file that nothing else can be done with.
    func removeWriteIfPossible(_ id: WriteID) { try? removeWrite(id) }

    // MARK: The sign-in

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
        // Later writes count on from it.
        guard (try? sound(row.integer(0), "write's number")) != nil else { return nil }
        return WriteCodec.decode(row.rawBytes(2), id: WriteID(rawValue: row.integer(0)), path: row.rawBytes(1))
    }
}
