import CHTTPParser

/// A request's method. The parser knows 34 names; those without a case of their own are `other`, unknown ones get 400.
public enum HTTPMethod: Sendable, Hashable, CustomStringConvertible {
    case get, head, post, put, patch, delete, options, connect, trace
    /// Any other registered method (WebDAV and the like), by its name in upper case.
    case other(String)

    init(parserCode: Int32) {
        switch UInt32(bitPattern: parserCode) {
        case HTTP_GET.rawValue: self = .get
        case HTTP_HEAD.rawValue: self = .head
        case HTTP_POST.rawValue: self = .post
        case HTTP_PUT.rawValue: self = .put
        case HTTP_PATCH.rawValue: self = .patch
        case HTTP_DELETE.rawValue: self = .delete
        case HTTP_OPTIONS.rawValue: self = .options
        case HTTP_CONNECT.rawValue: self = .connect
        case HTTP_TRACE.rawValue: self = .trace
        default:
            self = .other(
                http_method_str(http_method(rawValue: UInt32(bitPattern: parserCode))).map { String(cString: $0) } ?? ""
            )
        }
    }

    public var description: String {
        switch self {
        case .get: "GET"
        case .head: "HEAD"
        case .post: "POST"
        case .put: "PUT"
        case .patch: "PATCH"
        case .delete: "DELETE"
        case .options: "OPTIONS"
        case .connect: "CONNECT"
        case .trace: "TRACE"
        case .other(let name): name
        }
    }
}
