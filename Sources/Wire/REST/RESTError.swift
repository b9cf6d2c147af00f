public import Tree

/// A refusal for REST clients: the status and the text of `{"error":"…"}` (reference: rtdb-protocol 7.3).
public struct RESTError: Error, Equatable, Sendable {
    public let status: Int
    public let message: String

    public init(_ status: Int, _ message: String) {
        self.status = status
        self.message = message
    }

    public static let permissionDenied = RESTError(401, "Permission denied")
    public static let unparsableToken = RESTError(401, "Could not parse auth token.")
    public static let invalidPath = RESTError(400, "Invalid path: Invalid token in path")
    public static let noData = RESTError(400, "Error: No data supplied.")
    /// Returns the refusal of a query whose index the rules don't declare.
    public static func missingIndex(_ index: Query.Index, at path: Path) -> RESTError {
        let name =
            switch index {
            case .key: ".key"
            case .value: ".value"
            case .priority: ".priority"
            case .child(let path): String(path.description.unicodeScalars.dropFirst())
            }
        return RESTError(400, "Index not defined, add \".indexOn\": \"\(name)\", for path \"\(path)\", to the rules")
    }

    public static let appendJSON = RESTError(404, "append .json to your request URI to use the REST API.")
}

extension RESTError {
    /// Parses a refusal on the client's side: the text of `{"error":"…"}`, or otherwise the first line of the body, at
    /// most 16 KiB (reference: rtdb-protocol 7.3).
    public init(status: Int, body: [UInt8]) {
        let most = 16 * 1024
        if let member = RawJSON(body).members?.last(where: { $0.key == "error" }), let text = member.value.string {
            self.init(status, text)
        } else {
            let text = String(decoding: body.prefix(most), as: UTF8.self)
            self.init(status, String(text.prefix { $0 != "\n" && $0 != "\r\n" }))
        }
    }
}
