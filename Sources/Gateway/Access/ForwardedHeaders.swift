import Runtime

/// What proxies say about whom they speak for.
enum ForwardedHeaders {
    /// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]:80`
    static func address(_ text: Substring) -> IPAddress? {
        var text = text.drop { $0 == " " || $0 == "\t" }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        if text.first == "[" {
            guard let end = text.firstIndex(of: "]") else { return nil }
            return IPAddress(String(text[text.index(after: text.startIndex)..<end]))
        }
        let colons = text.utf8.count { $0 == UInt8(ascii: ":") }
        if colons == 1, let colon = text.firstIndex(of: ":") { text = text[..<colon] }
        return IPAddress(String(text))
    }

    /// Whether nothing that a proxy says names anybody but this machine. Whatever a proxy doesn't say for certain counts
    /// against it, wherever it stands in a line: what a client makes up can only shut the client out.
    ///
    /// - Parameters:
    ///   - addresses: the lines of `X-Forwarded-For` and its like: addresses with commas between.
    ///   - forwarded: the lines of `Forwarded` (RFC 7239).
    static func nameOnlyThisMachine(addresses: [String], forwarded: [String]) -> Bool {
        let named = addresses.flatMap { $0.split(separator: ",", omittingEmptySubsequences: false) }
        let elements = forwarded.flatMap { $0.split(separator: ",", omittingEmptySubsequences: false) }
        return named.allSatisfy(isLoopback) && elements.allSatisfy(namesLoopback)
    }

    private static func isLoopback(_ text: Substring) -> Bool { address(text)?.isLoopback ?? false }

    /// `for=127.0.0.1;proto=https`, `for="[::1]:4711"`
    private static func namesLoopback(_ element: Substring) -> Bool {
        let clients = element.split(separator: ";").compactMap { pair -> Substring? in
            let parts = pair.split(separator: "=", maxSplits: 1)
            guard parts.count == 2, parts[0].filter({ $0 != " " && $0 != "\t" }).lowercased() == "for" else {
                return nil
            }
            return parts[1].filter { $0 != "\"" }[...]
        }
        return !clients.isEmpty && clients.allSatisfy(isLoopback)
    }
}
