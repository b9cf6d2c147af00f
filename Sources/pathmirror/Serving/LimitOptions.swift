import Gateway
import HTTPServer
import Runtime

/// The options that limit callers.
enum LimitOptions {
    static let options: [OptionSpecification] = [
        .init(
            "max-connections-per-address", "N",
            "the most concurrent connections of one address; 0 = unlimited; default 10000, for this machine unlimited"),
        .init(
            "rate-limit-per-address", "N/s[:BURST]",
            "the most requests and realtime messages of one address at this gateway per second (s), minute (m) or hour (h); default: unlimited"
        ),
        .init(
            "rate-limit-per-identity", "N/s[:BURST]",
            "the most requests and realtime messages of one user; default: unlimited"),
        .init(
            "write-limit", "SIZE/m[:BURST]",
            "the most bytes that this gateway writes to a namespace per second (s), minute (m) or hour (h); Firebase's limit is 64MiB/m; default: unlimited"
        ),
        .init("max-body", "SIZE", "the largest body of an administrator's request; default 256MiB"),
        .init("max-user-body", "SIZE", "the largest body, or realtime message, of other clients; default 16MiB"),
        .init(
            "request-memory", "SIZE",
            "memory limit for request bodies and messages being received or parsed, a quarter of it for one address, and the same again for unread responses; default 1GiB"
        ),
        .init(
            "trusted-proxies", "CIDR[,…]",
            "proxies whose X-Forwarded-For names the client's address, such as 10.0.0.0/8; the proxies themselves are not limited"
        ),
        .init(
            "metrics-from", "CIDR[,…]",
            "networks that may read /.metrics and the details of /.health/ready without a credential, besides this machine"
        ),
    ]

    private static let defaultConnections = 10_000

    static func take(
        _ arguments: ParsedArguments, _ gateway: inout GatewaySettings, _ server: inout HTTPServerSettings
    ) throws {
        gateway.limits.perAddress = try rate(arguments, "rate-limit-per-address")
        gateway.limits.perIdentity = try rate(arguments, "rate-limit-per-identity")
        gateway.limits.writeBytes = try writeLimit(arguments)
        gateway.limits.trustedProxies = try networks(arguments, "trusted-proxies")
        gateway.metricsNetworks = try networks(arguments, "metrics-from")
        server.unlimitedNetworks = gateway.limits.trustedProxies
        let size = 1...(1 << 30)
        if let bytes = try arguments.size("max-body", in: size) { gateway.maxBodyBytes = bytes }
        if let bytes = try arguments.size("max-user-body", in: size) {
            gateway.maxPlainBodyBytes = bytes
            gateway.maxMessageBytes = bytes
        }
        gateway.maxPlainBodyBytes = min(gateway.maxPlainBodyBytes, gateway.maxBodyBytes)
        let memory = try arguments.size("request-memory", in: (1 << 20)...(1 << 45)) ?? gateway.memory.bytes
        gateway.memory = MemoryBudget(bytes: memory, bytesPerAddress: memory / 4)
        gateway.output = OutputBudget(bytes: memory)
        if let count = try arguments.integer("max-connections-per-address", in: 0...10_000_000) {
            server.maxConnectionsPerAddress = count == 0 ? nil : count
        } else {
            server.maxConnectionsPerAddress = defaultConnections
            server.unlimitedNetworks += ["127.0.0.0/8", "::1"].compactMap(IPNetwork.init)
        }
    }

    private static func rate(_ arguments: ParsedArguments, _ name: String) throws -> RateLimit? {
        guard let text = arguments[name] else { return nil }
        guard let limit = RateLimit(text) else {
            throw UsageError("--\(name) must be a rate such as 100/s, 600/m or 100/s:500 (500 at once after a pause).")
        }
        return limit
    }

    private static func writeLimit(_ arguments: ParsedArguments) throws -> RateLimit? {
        guard let text = arguments["write-limit"] else { return nil }
        guard let limit = RateLimit(text, amount: { ByteCount.parse(String($0)) }) else {
            throw UsageError(
                "--write-limit must be a size and a time, such as 64MiB/m, or 1MiB/s:64MiB (64 MiB at once after a pause)."
            )
        }
        return limit
    }

    private static func networks(_ arguments: ParsedArguments, _ name: String) throws -> [IPNetwork] {
        try (arguments[name] ?? "").split(separator: ",").map { part in
            guard let network = IPNetwork(String(part)) else {
                throw UsageError(
                    "--\(name): \"\(part)\" is neither an address nor a network such as 10.0.0.0/8 (with no bits set after the prefix)."
                )
            }
            return network
        }
    }
}
