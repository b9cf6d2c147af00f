import Runtime

/// The client addresses that proxies report.
enum ForwardedHeaders {
    /// Parses `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1` or `[2001:db8::1]:80`.
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

    /// Returns whether all addresses that proxies report belong to this machine. An unreadable address, at any
    /// position, counts as foreign. So an address that a client invents can only shut out that client.
    ///
    /// - Parameters:
    ///   - addresses: the values of `X-Forwarded-For` and similar headers: addresses separated by commas.
    ///   - forwarded: the values of `Forwarded` (RFC 7239).
    static func nameOnlyThisMachine(addresses: [String], forwarded: [String]) -> Bool {
        let named = addresses.flatMap { $0.split(separator: ",", omittingEmptySubsequences: false) }
        let elements = forwarded.flatMap { $0.split(separator: ",", omittingEmptySubsequences: false) }
        return named.allSatisfy(isLoopback) && elements.allSatisfy(namesLoopback)
    }

    private static func isLoopback(_ text: Substring) -> Bool { address(text)?.isLoopback ?? false }

    /// Parses `for=127.0.0.1;proto=https` or `for="[::1]:4711"`.
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
