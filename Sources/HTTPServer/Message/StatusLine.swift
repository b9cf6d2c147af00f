import CHTTPParser

/// `HTTP/1.1 200 OK\r\n`, ready for the common statuses.
enum StatusLine {
    static func ready(_ status: Int) -> StaticString? {
        switch status {
        case 200: "HTTP/1.1 200 OK\r\n"
        case 201: "HTTP/1.1 201 Created\r\n"
        case 204: "HTTP/1.1 204 No Content\r\n"
        case 304: "HTTP/1.1 304 Not Modified\r\n"
        case 400: "HTTP/1.1 400 Bad Request\r\n"
        case 401: "HTTP/1.1 401 Unauthorized\r\n"
        case 403: "HTTP/1.1 403 Forbidden\r\n"
        case 404: "HTTP/1.1 404 Not Found\r\n"
        case 412: "HTTP/1.1 412 Precondition Failed\r\n"
        default: nil
        }
    }

    /// The reason phrase; empty for an unregistered status, which HTTP allows.
    static func reason(_ status: Int) -> String {
        guard (100..<600).contains(status),
            let text = http_status_str(http_status(rawValue: UInt32(status)))
        else { return "" }
        let reason = String(cString: text)
        return reason == "<unknown>" ? "" : reason
    }
}
