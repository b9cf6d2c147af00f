import CHTTPParser
public import Runtime

/// One complete request. A value: it may be kept and may cross threads.
public struct HTTPRequest: Sendable {
    public let method: HTTPMethod
    /// 1 for HTTP/1.1, 0 for HTTP/1.0.
    public let minorVersion: Int
    /// The body without its transfer encoding; empty if there is none.
    public let body: [UInt8]
    /// Whether the peer requests another protocol (Connection: Upgrade), or uses CONNECT. Answer it like any other
    /// request to continue with HTTP, or call `HTTPExchange.upgrade`.
    public let isUpgrade: Bool
    /// Whether the request came over TLS.
    public let isSecure: Bool
    /// Whether the peer intends to send further requests on this connection.
    public let keepsAlive: Bool

    let head: [UInt8]
    let fields: [RequestParser.Field]
    let targetLength: Int
    let parts: RequestTarget
    let peer: PeerAddress

    /// The request target as it was sent.
    public var target: ArraySlice<UInt8> { head[0..<targetLength] }
    /// The target's path, still percent-encoded: from the first slash up to `?`. Empty for `http://host`, `*` for
    /// `OPTIONS *`.
    public var path: ArraySlice<UInt8> { head[parts.path] }
    /// The target's query, still percent-encoded, without its `?`; nil if there is no `?`.
    public var query: ArraySlice<UInt8>? { parts.query.map { head[$0] } }

    /// The host (and port) that the peer requests: of an absolute target, else of the Host header; nil in HTTP/1.0
    /// without one.
    public var host: ArraySlice<UInt8>? {
        parts.authority.isEmpty ? header("host") : head[parts.authority]
    }

    /// Returns the value of a header's first line, without blanks at its ends; nil if there is none. `name` is in lower
    /// case. Does not allocate.
    public func header(_ name: StaticString) -> ArraySlice<UInt8>? {
        for field in fields {
            let start = Int(field.nameStart)
            let end = Int(field.valueStart)
            if end - start == name.utf8CodeUnitCount, head[start..<end].equals(name) {
                return head[end..<Int(field.valueEnd)]
            }
        }
        return nil
    }

    /// Returns the value of a header's first line as text (invalid UTF-8 repaired); nil if there is none.
    public func headerText(_ name: StaticString) -> String? {
        header(name).map { String(decoding: $0, as: UTF8.self) }
    }

    /// Returns the values of all of a header's lines as text, in the order sent. `name` is in lower case.
    public func headerTexts(_ name: StaticString) -> [String] {
        var texts: [String] = []
        for field in fields {
            let (start, end) = (Int(field.nameStart), Int(field.valueStart))
            guard end - start == name.utf8CodeUnitCount, head[start..<end].equals(name) else { continue }
            texts.append(String(decoding: head[end..<Int(field.valueEnd)], as: UTF8.self))
        }
        return texts
    }

    /// Every header line in the order sent: name in lower case, value.
    public var headers: [(name: String, value: String)] {
        fields.map { field in
            (
                String(decoding: head[Int(field.nameStart)..<Int(field.valueStart)], as: UTF8.self),
                String(decoding: head[Int(field.valueStart)..<Int(field.valueEnd)], as: UTF8.self)
            )
        }
    }

    /// The target as text (invalid UTF-8 repaired), for logs.
    public var targetText: String { String(decoding: target, as: UTF8.self) }

    /// The peer's address, without port: `192.0.2.1`, `2001:db8::1`. Created at each access.
    public var remoteAddress: String { peer.host }
    /// The peer's address as a value, without creating text.
    public var remoteIP: IPAddress { peer.ip }
    /// The peer's port.
    public var remotePort: UInt16 { peer.port }
    /// Whether the peer is this machine, connected by its loopback interface.
    public var isLoopbackPeer: Bool { peer.isLoopback }
}

extension HTTPRequest {
    /// Copies the request from a parser that has reported `complete`.
    init(
        _ parser: RequestParser, method: HTTPMethod, target: RequestTarget, peer: PeerAddress, isSecure: Bool
    ) {
        self.method = method
        minorVersion = Int(parser.facts.minor)
        body = parser.body
        isUpgrade = parser.facts.isUpgrade
        keepsAlive = parser.facts.keepsAlive
        head = parser.head
        fields = parser.fields
        targetLength = parser.targetLength
        parts = target
        self.peer = peer
        self.isSecure = isSecure
    }
}

/// A request's method. Known methods without a case become `other`; the server answers unknown ones with 400.
public enum HTTPMethod: Sendable, Hashable, CustomStringConvertible {
    case get, head, post, put, patch, delete, options, connect, trace
    /// Any other registered method (WebDAV and similar), by its name in upper case.
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
