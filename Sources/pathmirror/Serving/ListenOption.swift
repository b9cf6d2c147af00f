import HTTPServer

/// `HOST:PORT` as a place to listen.
enum ListenOption {
    static func address(_ text: String, _ option: String) throws -> ListenAddress {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]),
            colon > text.startIndex
        else { throw UsageError("--\(option) must be HOST:PORT, such as 0.0.0.0:9000 or [::]:9000.") }
        return ListenAddress(host: String(text[..<colon]), port: port)
    }

    /// The same for `localhost`, which may have two addresses.
    static func addresses(_ text: String, _ option: String) throws -> [ListenAddress] {
        let address = try address(text, option)
        return address.host == "localhost" ? ListenAddress.localhost(port: address.port) : [address]
    }
}
