internal import CCurl

/// The parts of an address that say where it leads, as libcurl reads them when it connects.
public struct ClientURL: Sendable, Equatable {
    /// In lower case.
    public let scheme: String
    /// In lower case, without a dot at its end; an IPv6 address without brackets.
    public let host: String
    public let port: String
    /// Has a user's name or password before the host.
    public let hasCredentials: Bool

    /// Nil where the text is no address with a host.
    public init?(_ text: String) {
        guard !text.utf8.contains(0), let handle = curl_url() else { return nil }
        defer { curl_url_cleanup(handle) }
        // As libcurl does when it is about to connect.
        let flags = UInt32(CURLU_NON_SUPPORT_SCHEME | CURLU_GUESS_SCHEME)
        guard curl_url_set(handle, CURLUPART_URL, text, flags) == CURLUE_OK,
            let scheme = Self.part(handle, CURLUPART_SCHEME), let host = Self.part(handle, CURLUPART_HOST),
            !host.isEmpty
        else { return nil }
        self.scheme = scheme.lowercased()
        self.host = Self.normalized(host)
        port = Self.part(handle, CURLUPART_PORT) ?? ""
        hasCredentials = Self.part(handle, CURLUPART_USER) != nil || Self.part(handle, CURLUPART_PASSWORD) != nil
    }

    /// Whether both lead to one server by one protocol.
    func hasOrigin(of other: ClientURL) -> Bool { scheme == other.scheme && host == other.host && port == other.port }

    static func normalized(_ host: String) -> String {
        var text = host.lowercased()
        if text.hasPrefix("["), text.hasSuffix("]") { text = String(text.dropFirst().dropLast()) }
        if text.hasSuffix(".") { text.removeLast() }
        return text
    }

    private static func part(_ handle: OpaquePointer, _ part: CURLUPart) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        guard curl_url_get(handle, part, &text, UInt32(CURLU_DEFAULT_PORT)) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text)
    }
}
