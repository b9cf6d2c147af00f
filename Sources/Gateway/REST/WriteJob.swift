import Compression
import Engine
import HTTPServer
import Rules
import Tree
import Wire

/// Turns a request's body into a write. Made on the loop, run there or on a worker.
struct WriteJob: Sendable {
    struct Parsed: Sendable {
        let action: Write.Action
        let operation: Tree.Operation
        let body: [UInt8]
        let hasServerValue: Bool
        let name: String?
        /// What of memory it has taken, where it is large.
        let share: MemoryShare?
    }

    static let tooBig = "Data to write exceeds the maximum size that can be modified with a single request."

    private static let noRoom = RESTError(503, "The server is receiving too much at once. Try again later.")

    private let request: HTTPRequest
    private let method: Call.Method
    /// Where it writes; an update's places are at or below it.
    let path: Path
    private let permission: WritePermission
    private let name: String?
    private let maxBodyBytes: Int
    private let isConditional: Bool
    /// Taken from by what comes out of a large or packed body.
    private let share: MemoryShare?
    /// Whether it is too much for a loop.
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
        share = isHeavy ? settings.memory.take(0, for: call.auth.isAdmin ? nil : call.address) : nil
        isConditional = call.request.header("if-match") != nil
    }

    /// What it reaches, before its body is known.
    var reach: RuleSet.Reach { method == .patch ? .pathAndBelow : .path }

    func run() -> Result<Parsed, RESTError> {
        do throws(RESTError) {
            return .success(try parse())
        } catch {
            return .failure(error)
        }
    }

    private func parse() throws(RESTError) -> Parsed {
        if method == .delete { return try parsed(.set(path, .null), .remove, [], false) }
        let body = try unpackedBody()
        guard body.contains(where: { $0 > 0x20 }) else { throw .noData }
        guard path.depth <= KeyRules.maxDepth + (path.namesPriority ? 1 : 0) else {
            throw RESTError(400, "Invalid path: more than \(KeyRules.maxDepth) levels deep")
        }
        return method == .patch ? try update(body) : try set(body)
    }

    private func set(_ body: [UInt8]) throws(RESTError) -> Parsed {
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
            method == .post ? .push : (isConditional ? .transaction : (value.node.isNull ? .remove : .set))
        return try parsed(.set(path, value.node), operation, body, value.hasServerValue)
    }

    private func update(_ body: [UInt8]) throws(RESTError) -> Parsed {
        let update: (changes: [JSONParser.ParsedChange], hasServerValue: Bool)?
        do {
            update = try JSONParser.parseUpdate(body, maxDepth: KeyRules.maxDepth - path.depth)
        } catch {
            throw Self.refusal(error, of: "JSON object. Are you sending a JSON object with valid key names?")
        }
        // The CLI removes by PATCH with null (reference: rtdb-protocol 7.1).
        guard let update else { return try parsed(.set(path, .null), .remove, body, false) }
        let changes = update.changes.map { Change(path: path.appending($0.path), value: $0.node) }
        guard permission.mayBeGiven(to: changes) else { throw .permissionDenied }
        try Self.refuseOverlaps(changes)
        return try parsed(.update(base: path, changes), .update, body, update.hasServerValue)
    }

    private func parsed(
        _ action: Write.Action, _ operation: Tree.Operation, _ body: [UInt8], _ hasServerValue: Bool
    ) throws(RESTError) -> Parsed {
        if let share {
            let size =
                switch action {
                case .set(_, let node): ParsedSize.estimate(node)
                case .update(_, let changes): ParsedSize.estimate(changes)
                case .rules, .disconnect: 0
                }
            guard share.grow(by: size) else { throw Self.noRoom }
        }
        return Parsed(
            action: action, operation: operation, body: body, hasServerValue: hasServerValue, name: name, share: share)
    }

    private func unpackedBody() throws(RESTError) -> [UInt8] {
        guard let encoding = request.headerText("content-encoding")?.lowercased(), encoding != "identity" else {
            return request.body
        }
        guard encoding == "gzip" || encoding == "x-gzip" || encoding == "deflate" else {
            throw RESTError(415, "The content encoding must be gzip or identity")
        }
        do throws(GzipError) {
            return try Gzip.decompress(request.body, limit: maxBodyBytes) { share?.grow(by: $0) ?? true }
        } catch {
            switch error {
            case .damaged: throw RESTError(400, "The body is not valid \(encoding) data")
            case .tooLarge: throw RESTError(413, Self.tooBig)
            case .noRoom: throw Self.noRoom
            }
        }
    }

    /// The original's text, and behind it where and why.
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

    /// One path of an update may not lie at or below another.
    private static func refuseOverlaps(_ changes: [Change]) throws(RESTError) {
        guard let (first, second) = Change.overlap(in: changes) else { return }
        throw RESTError(
            400,
            first == second
                ? "Invalid data; \(first) is in the update twice"
                : "Invalid data; \(first) is an ancestor of \(second) in the same update")
    }
}
