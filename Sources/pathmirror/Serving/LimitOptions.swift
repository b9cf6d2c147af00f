import Engine
import Gateway
import HTTPServer
import Runtime

/// The options about how much callers may ask.
enum LimitOptions {
    static let options: [OptionSpecification] = [
        .init(
            "max-connections-per-address", "N",
            "the most connections of one address at once, 0 for no bound; default 10000, for this machine no bound"),
        .init(
            "rate-limit-per-address", "N/s[:BURST]",
            "the most requests and realtime messages of one address at this gateway in a second (s), minute (m) or hour (h); default: no bound"
        ),
        .init("rate-limit-per-identity", "N/s[:BURST]", "the same of one user; default: no bound"),
        .init(
            "write-bytes-per-minute", "N",
            "the most bytes written to a namespace by this gateway in a minute; the original's bound is 67108864; default: no bound"
        ),
        .init("max-body-bytes", "N", "the largest body of an administrator's request; default 268435456"),
        .init("max-user-body-bytes", "N", "the largest body, or realtime message, of anybody else; default 16777216"),
        .init(
            "memory-bytes", "N",
            "what bodies, messages and what was parsed of them may take of memory together, and the same again for responses that wait for their readers; default 1073741824"
        ),
        .init(
            "answer-cache-bytes", "N",
            "what an event loop keeps of values that it has written out for GETs; default 33554432, 0: nothing"),
        .init(
            "long-stretch-ms", "N",
            "what may keep an event loop or a committer from all else before the log says so, 0 for never; default 100"),
        .init("memory-per-address-bytes", "N", "how much of that one address may take; default a quarter of it"),
        .init(
            "trusted-proxies", "CIDR[,…]",
            "proxies whose X-Forwarded-For tells the client's address, such as 10.0.0.0/8; no bound on them themselves"),
        .init(
            "metrics-from", "CIDR[,…]",
            "who may read /.metrics and the details of /.health/ready without a credential, besides this machine"),
    ]

    private static let defaultConnections = 10_000

    static func take(
        _ arguments: ParsedArguments, _ gateway: inout GatewaySettings, _ server: inout HTTPServerSettings,
        _ engine: inout EngineSettings
    ) throws {
        gateway.limits.perAddress = try rate(arguments, "rate-limit-per-address")
        gateway.limits.perIdentity = try rate(arguments, "rate-limit-per-identity")
        gateway.limits.writeBytesPerMinute = try arguments.integer("write-bytes-per-minute", in: 1...(1 << 50))
        gateway.limits.trustedProxies = try networks(arguments, "trusted-proxies")
        gateway.metricsNetworks = try networks(arguments, "metrics-from")
        server.unlimitedNetworks = gateway.limits.trustedProxies
        let size = 1...(1 << 30)
        if let bytes = try arguments.integer("max-body-bytes", in: size) { gateway.maxBodyBytes = bytes }
        if let bytes = try arguments.integer("max-user-body-bytes", in: size) {
            gateway.maxPlainBodyBytes = bytes
            gateway.maxMessageBytes = bytes
        }
        gateway.maxPlainBodyBytes = min(gateway.maxPlainBodyBytes, gateway.maxBodyBytes)
        if let bytes = try arguments.integer("answer-cache-bytes", in: 0...(1 << 40)) {
            gateway.answerCacheBytes = bytes
        }
        if let time = try arguments.integer("long-stretch-ms", in: 0...3_600_000) {
            server.longStretchMilliseconds = Milliseconds(time)
            engine.longStretchMilliseconds = Milliseconds(time)
        }
        let memory = try arguments.integer("memory-bytes", in: (1 << 20)...(1 << 45)) ?? gateway.memory.bytes
        let share = try arguments.integer("memory-per-address-bytes", in: 65_536...(1 << 45)) ?? memory / 4
        gateway.memory = MemoryBudget(bytes: memory, bytesPerAddress: share)
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

    private static func networks(_ arguments: ParsedArguments, _ name: String) throws -> [IPNetwork] {
        try (arguments[name] ?? "").split(separator: ",").map { part in
            guard let network = IPNetwork(String(part)) else {
                throw UsageError(
                    "--\(name): \"\(part)\" is neither an address nor a network such as 10.0.0.0/8 (with no bits set behind the prefix)."
                )
            }
            return network
        }
    }
}
