public import Tree

/// A refusal as REST clients see it: the status and the text of `{"error":"…"}` (reference: rtdb-protocol 7.3).
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
    /// A query by an index that the rules don't declare.
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
    /// What a client is told of a refusal: the text of `{"error":"…"}`, or the whole body where it is something else
    /// (reference: rtdb-protocol 7.3). Of a long body its beginning.
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
