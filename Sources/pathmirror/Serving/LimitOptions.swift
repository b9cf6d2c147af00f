import Gateway
import HTTPServer

/// The options about how much callers may ask.
enum LimitOptions {
    static let options: [OptionSpecification] = [
        .init(
            "max-connections-per-address", "N",
            "the most connections of one address at once, 0 for no bound; default 10000, for this machine no bound"),
        .init(
            "rate-limit-per-address", "N/s[:BURST]",
            "the most requests and realtime messages of one address in a second (s), minute (m) or hour (h); default: no bound"
        ),
        .init("rate-limit-per-identity", "N/s[:BURST]", "the same of one user; default: no bound"),
        .init(
            "write-bytes-per-minute", "N",
            "the most bytes written to a namespace in a minute; the original's bound is 67108864; default: no bound"),
        .init(
            "trusted-proxies", "CIDR[,…]",
            "proxies whose X-Forwarded-For tells the client's address, such as 10.0.0.0/8; no bound on them themselves"),
    ]

    private static let defaultConnections = 10_000

    static func take(
        _ arguments: ParsedArguments, _ limits: inout RateLimiterSettings, _ server: inout HTTPServerSettings
    ) throws {
        limits.perAddress = try rate(arguments, "rate-limit-per-address")
        limits.perIdentity = try rate(arguments, "rate-limit-per-identity")
        limits.writeBytesPerMinute = try arguments.integer("write-bytes-per-minute", in: 1...(1 << 50))
        limits.trustedProxies = try networks(arguments["trusted-proxies"] ?? "")
        server.unlimitedNetworks = limits.trustedProxies
        if let count = try arguments.integer("max-connections-per-address", in: 0...10_000_000) {
            server.maxConnectionsPerAddress = count == 0 ? nil : count
        } else {
            server.maxConnectionsPerAddress = defaultConnections
            server.unlimitedNetworks += try networks("127.0.0.0/8,::1")
        }
    }

    private static func rate(_ arguments: ParsedArguments, _ name: String) throws -> RateLimit? {
        guard let text = arguments[name] else { return nil }
        guard let limit = RateLimit(text) else {
            throw UsageError("--\(name) must be a rate such as 100/s, 600/m or 100/s:500 (500 at once after a pause).")
        }
        return limit
    }

    private static func networks(_ text: String) throws -> [IPNetwork] {
        try text.split(separator: ",").map { part in
            guard let network = IPNetwork(String(part)) else {
                throw UsageError(
                    "--trusted-proxies: \"\(part)\" is neither an address nor a network such as 10.0.0.0/8 (with no bits set behind the prefix)."
                )
            }
            return network
        }
    }
}
