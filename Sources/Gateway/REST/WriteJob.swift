import Compression
import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

/// Converts a request's body to a write. Created on the loop, run there or on a worker.
struct WriteJob: Sendable {
    struct Parsed: Sendable {
        let write: Write
        /// Size of the body in bytes, uncompressed.
        let bodyBytes: Int
        let name: String?
        /// The outcome if a trial on a snapshot refused the write; nil if the write has to be queued.
        let refusal: WriteOutcome?
        /// The share of the memory budget of a large write.
        let share: MemoryShare?
    }

    private static let noRoom = RESTError(503, "The server is receiving too much at once. Try again later.")

    private let request: HTTPRequest
    private let method: Call.Method
    /// The path of the write. An update's changes are at or below it.
    let path: Path
    private let permission: WritePermission
    private let auth: AuthContext
    private let origin: Origin
    private let expectedHash: String?
    private let rowLimit: Int?
    private let heavyRows: Int
    private let name: String?
    private let maxBodyBytes: Int
    /// The share of the memory budget for the contents of a large or compressed body.
    private let share: MemoryShare?
    /// Whether the body is too large for a loop.
    let isHeavy: Bool

    init(_ call: Call, _ settings: GatewaySettings, _ permission: WritePermission, name: String?) {
        self.permission = permission
        request = call.request
        method = call.method
        path = name.map { call.path.appending(Key($0)) } ?? call.path
        self.name = name
        maxBodyBytes = call.auth.isAdmin ? settings.maxBodyBytes : settings.maxPlainBodyBytes
        isHeavy =
            call.request.body.count > settings.heavyBodyBytes || call.request.header("content-encoding") != nil
        share =
            isHeavy
            ? settings.memory.take(
                0, for: call.auth.isAdmin ? nil : call.address, beside: call.request.body.count) : nil
        auth = call.auth
        origin = call.origin
        heavyRows = settings.heavyRows
        expectedHash = call.request.headerText("if-match").map(ETag.hash)
        rowLimit = call.parameters.writeTimeout.map(Self.rowLimit)
    }

    /// The reach of the write before its body is known.
    var reach: RuleSet.Reach { method == .patch ? .pathAndBelow : .path }

    /// Returns the maximum number of rows for a `writeSizeLimit` in milliseconds, at 100,000 rows a second.
    private static func rowLimit(_ milliseconds: Milliseconds) -> Int {
        let (rows, isTooMany) = milliseconds.multipliedReportingOverflow(by: 100)
        return isTooMany ? .max - 1 : Int(clamping: rows) + 99
    }

    /// - Parameter snapshot: the snapshot on which a large write is tried before it is queued; nil for no trial.
    func run(on snapshot: Snapshot? = nil) -> Result<Parsed, RESTError> {
        do throws(RESTError) {
            if let snapshot {
                let permission = WritePermission(snapshot.rules.set, auth, now: Clock.unixMilliseconds)
                guard permission.mayBeGiven(at: path, reach, root: snapshot.root) else { throw .permissionDenied }
            }
            return .success(try parse(snapshot))
        } catch {
            return .failure(error)
        }
    }

    private func parse(_ snapshot: Snapshot?) throws(RESTError) -> Parsed {
        if method == .delete { return try parsed(.set(path, .null), .remove, 0, false, snapshot) }
        let body = try decompressedBody()
        guard body.contains(where: { $0 > 0x20 }) else { throw .noData }
        guard path.depth <= KeyRules.maxDepth + (path.namesPriority ? 1 : 0) else {
            throw RESTError(400, "Invalid path: more than \(KeyRules.maxDepth) levels deep")
        }
        // Reserves memory before parsing, because the parsed value may take a hundred times the bytes of the text.
        guard share?.grow(by: JSONSize.estimate(body)) ?? true else { throw Self.noRoom }
        return method == .patch ? try update(body, snapshot) : try set(body, snapshot)
    }

    private func set(_ body: [UInt8], _ snapshot: Snapshot?) throws(RESTError) -> Parsed {
        let value: JSONParser.Parsed
        do {
            value = try JSONParser.parse(body, maxDepth: KeyRules.maxDepth - path.depth)
        } catch {
            throw Self.refusal(error, of: "JSON object, array, or value.")
        }
        if path.namesPriority {
            switch value.node {
            case .null, .int, .double, .string, .serverValue: break
            default: throw RESTError(400, "A priority must be a number or a string.")
            }
        }
        let operation: Tree.Operation =
            method == .post ? .push : (expectedHash != nil ? .transaction : (value.node.isNull ? .remove : .set))
        return try parsed(.set(path, value.node), operation, body.count, value.hasServerValue, snapshot)
    }

    private func update(_ body: [UInt8], _ snapshot: Snapshot?) throws(RESTError) -> Parsed {
        let update: (changes: [JSONParser.ParsedChange], hasServerValue: Bool)?
        do {
            update = try JSONParser.parseUpdate(body, maxDepth: KeyRules.maxDepth - path.depth)
        } catch {
            throw Self.refusal(error, of: "JSON object. Are you sending a JSON object with valid key names?")
        }
        // The CLI removes by PATCH with null (reference: rtdb-protocol 7.1).
        guard let update else { return try parsed(.set(path, .null), .remove, body.count, false, snapshot) }
        let changes = update.changes.map { Change(path: path.appending($0.path), value: $0.node) }
        guard permission.mayBeGiven(to: changes) else { throw .permissionDenied }
        try Self.refuseOverlaps(changes)
        return try parsed(.update(base: path, changes), .update, body.count, update.hasServerValue, snapshot)
    }

    private func parsed(
        _ action: Write.Action, _ operation: Tree.Operation, _ bodyBytes: Int, _ hasServerValue: Bool,
        _ snapshot: Snapshot?
    ) throws(RESTError) -> Parsed {
        let write = Write(
            action, operation: operation, expectedHash: expectedHash, hasServerValue: hasServerValue,
            byteCount: bodyBytes + 64, rowLimit: rowLimit, auth: auth, origin: origin, mayBeOvertaken: true)
        var refusal: WriteOutcome?
        if let snapshot, write.rowCount > heavyRows {
            refusal = WriteTrial.refusal(of: write, on: snapshot, now: Clock.unixMilliseconds)
        }
        return Parsed(write: write, bodyBytes: bodyBytes, name: name, refusal: refusal, share: share)
    }

    private func decompressedBody() throws(RESTError) -> [UInt8] {
        guard let encoding = request.headerText("content-encoding")?.lowercased(), encoding != "identity" else {
            return request.body
        }
        guard encoding == "gzip" || encoding == "x-gzip" || encoding == "deflate" else {
            throw RESTError(415, "The content encoding must be gzip, deflate or identity")
        }
        do throws(GzipError) {
            return try Gzip.decompress(request.body, limit: maxBodyBytes) { share?.grow(by: $0) ?? true }
        } catch {
            switch error {
            case .damaged: throw RESTError(400, "The body is not valid \(encoding) data")
            case .tooLarge: throw RESTError(413, AnswerText.tooBig)
            case .noRoom: throw Self.noRoom
            }
        }
    }

    /// Returns Firebase's error text, followed by the position and the reason.
    private static func refusal(_ error: JSONError, of expected: String) -> RESTError {
        switch error.kind {
        case .syntax: RESTError(400, "Invalid data; couldn't parse \(expected) \(error)")
        case .key:
            RESTError(
                400,
                "Invalid data; couldn't parse key beginning at \(error.line):\(error.column). Key value can't be empty or "
                    + "contain $ # [ ] / or . (\(error.reason))")
        case .value: RESTError(400, "Invalid data; \(error)")
        }
    }

    /// Refuses an update in which one path lies at or below another.
    private static func refuseOverlaps(_ changes: [Change]) throws(RESTError) {
        guard let (first, second) = Change.overlap(in: changes) else { return }
        throw RESTError(
            400,
            first == second
                ? "Invalid data; \(first) is in the update twice"
                : "Invalid data; \(first) is an ancestor of \(second) in the same update")
    }
}
