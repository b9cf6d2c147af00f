internal import ClientCore
internal import SQLite
internal import Tree

/// Pending writes.
extension StoreFile {
    /// In order, and how many are there whose bytes are damaged.
    func pendingWrites() throws(SQLiteError) -> (writes: [PendingWrite], damaged: Int) {
        let rows = try connection.prepare("SELECT id, path, content FROM writes ORDER BY id")
        var writes: [PendingWrite] = []
        var damaged = 0
        while try rows.step() {
            if let write = Self.write(rows) { writes.append(write) } else { damaged += 1 }
        }
        return (writes, damaged)
    }

    /// Whatever can still be read of a damaged file's writes.
    static func rescuedWrites(_ connection: SQLiteConnection) -> [PendingWrite] {
        var writes: [PendingWrite] = []
        do throws(SQLiteError) {
            let rows = try connection.prepare("SELECT id, path, content FROM writes ORDER BY id")
            while try rows.step() {
                if let write = write(rows) { writes.append(write) }
            }
        } catch {
            // What was read before is all there is.
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
        WriteCodec.decode(row.rawBytes(2), id: WriteID(rawValue: row.integer(0)), path: row.rawBytes(1))
    }
}
