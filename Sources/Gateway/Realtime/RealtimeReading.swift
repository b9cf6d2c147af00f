import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

/// Parses a long message and tries its write on a snapshot. Created on the loop, run on a worker.
struct RealtimeReading: Sendable {
    enum Outcome: Sendable {
        case message(ClientMessage)
        /// A large write that would be refused; with its path if it is a transaction.
        case refused(Int64, WriteName?, WriteOutcome, TransactionKey?)
    }

    private let auth: AuthContext
    private let snapshot: Snapshot?
    private let namespace: LiveNamespace
    private let share: MemoryShare
    private let heavyRows: Int

    /// - Parameter snapshot: the snapshot on which a large write is tried; nil for no trial.
    init(
        _ auth: AuthContext, _ snapshot: Snapshot?, in namespace: LiveNamespace, _ share: MemoryShare, heavyRows: Int
    ) {
        self.auth = auth
        self.snapshot = snapshot
        self.namespace = namespace
        self.share = share
        self.heavyRows = heavyRows
    }

    func run(_ message: [UInt8]) -> Result<Outcome, MessageError> {
        do throws(MessageError) {
            let now = Clock.unixMilliseconds
            let permission = snapshot.map { WritePermission($0.rules.set, auth, now: now) }
            // The parsed value may take a hundred times the bytes of the text.
            guard share.grow(by: JSONSize.estimate(message)) else {
                throw MessageError(reason: "no memory for the parsed message")
            }
            let parsed = try ClientMessageParser.parse(message) { path, isMerge in
                guard let permission, let snapshot else { return true }
                return permission.mayBeGiven(at: path, isMerge ? .pathAndBelow : .path, root: snapshot.root)
            }
            return .success(attempt(parsed, now) ?? .message(parsed))
        } catch {
            return .failure(error)
        }
    }

    private func attempt(_ message: ClientMessage, _ now: Int64) -> Outcome? {
        guard let snapshot, case .request(let request) = message else { return nil }
        let write: Write
        switch request.action {
        case .put(let path, let value, let hash, _):
            write = Write(
                .set(path, value.node), operation: .set, expectedHash: hash, hasServerValue: value.hasServerValue,
                byteCount: 0, auth: auth)
        case .merge(let path, let changes, let hasServerValue, let hash, _):
            write = Write(
                .update(base: path, changes), operation: .update, expectedHash: hash, hasServerValue: hasServerValue,
                byteCount: 0, auth: auth)
        default: return nil
        }
        guard write.rowCount > heavyRows, let outcome = WriteTrial.refusal(of: write, on: snapshot, now: now) else {
            return nil
        }
        let key = write.expectedHash.map { _ in TransactionKey(namespace: namespace.key, path: write.path) }
        return .refused(request.number, request.name, outcome, key)
    }
}
