import Rules
import Runtime
import Testing
import Tree
import Wire

@testable import Gateway
@testable import HTTPServer

/// Tests of identity, origin and rate limits of callers.
@Suite struct CallerResolverTests {
    private static func limits(
        _ change: (inout RateLimiterSettings) throws -> Void
    ) rethrows -> RateLimiterSettings {
        var limits = RateLimiterSettings()
        try change(&limits)
        return limits
    }

    private static var dev: GatewayCredentials {
        var credentials = GatewayCredentials()
        credentials.acceptsOwner = true
        return credentials
    }

    // MARK: Origin

    private struct Origin {
        let peer: String
        let headers: [(String, String)]
        let client: String
        let isLoopback: Bool
    }

    /// Test cases with 10.0.0.0/8 and the local machine as trusted proxies.
    private static let origins = [
        Origin(peer: "127.0.0.1", headers: [], client: "127.0.0.1", isLoopback: true),
        Origin(peer: "203.0.113.9", headers: [], client: "203.0.113.9", isLoopback: false),
        // The gateway ignores forwarding headers of an untrusted client.
        Origin(
            peer: "203.0.113.9", headers: [("X-Forwarded-For", "127.0.0.1")], client: "203.0.113.9",
            isLoopback: false),
        Origin(
            peer: "10.1.1.1", headers: [("X-Forwarded-For", "198.51.100.7")], client: "198.51.100.7",
            isLoopback: false),
        Origin(
            peer: "10.1.1.1", headers: [("X-Forwarded-For", "1.1.1.1, 198.51.100.7, 10.2.2.2")],
            client: "198.51.100.7", isLoopback: false),
        Origin(
            peer: "10.1.1.1", headers: [("X-Forwarded-For", "1.1.1.1"), ("X-Forwarded-For", "198.51.100.7")],
            client: "198.51.100.7", isLoopback: false),
        // A local proxy that forwards requests of other clients or of local clients.
        Origin(
            peer: "127.0.0.1", headers: [("X-Forwarded-For", "198.51.100.7")], client: "198.51.100.7",
            isLoopback: false),
        Origin(
            peer: "127.0.0.1", headers: [("X-Forwarded-For", "127.0.0.1")], client: "127.0.0.1", isLoopback: true),
        Origin(
            peer: "127.0.0.1", headers: [("X-Real-IP", "198.51.100.7")], client: "127.0.0.1", isLoopback: false),
        Origin(peer: "127.0.0.1", headers: [("X-Real-IP", "127.0.0.1")], client: "127.0.0.1", isLoopback: true),
        Origin(
            peer: "127.0.0.1", headers: [("Forwarded", "for=198.51.100.7")], client: "127.0.0.1", isLoopback: false),
        Origin(peer: "127.0.0.1", headers: [("Forwarded", "for=127.0.0.1")], client: "127.0.0.1", isLoopback: true),
        Origin(peer: "127.0.0.1", headers: [("Forwarded", "proto=https")], client: "127.0.0.1", isLoopback: false),
        Origin(
            peer: "127.0.0.1", headers: [("X-Forwarded-For", "nonsense")], client: "127.0.0.1", isLoopback: false),
    ]

    @Test(arguments: origins.indices)
    func whereRequestsComeFrom(_ index: Int) throws {
        let origin = Self.origins[index]
        let limits = try Self.limits { limits in
            limits.trustedProxies = [
                try #require(IPNetwork("10.0.0.0/8")), try #require(IPNetwork("127.0.0.0/8")),
            ]
        }
        try withLoop { test in
            let request = try TestRequest.make("GET", "/a.json", origin.headers, from: origin.peer)
            try test.on {
                let callers = CallerResolver(test.services(), limits: limits)
                #expect(callers.clientAddress(of: request).description == origin.client)
                #expect(callers.isFromLoopback(request) == origin.isLoopback)
            }
        }
    }

    // MARK: Rates

    @Test func addressesHaveLimits() throws {
        let limits = Self.limits { $0.perAddress = RateLimit(perSecond: 0.001, burst: 2) }
        try withLoop { test in
            let callers = try test.on { LoopBound(CallerResolver(test.services(), limits: limits)) }
            var admitted: [Bool] = []
            for (address, path) in [
                ("203.0.113.1", "/a.json"), ("203.0.113.1", "/a.json"), ("203.0.113.2", "/a.json"),
                ("203.0.113.1", "/a.json"), ("203.0.113.1", "/.health/ready"), ("203.0.113.1", "/.metrics"),
            ] {
                let client = try test.client(from: address)
                let (request, exchange) = try test.exchange(client, "GET", path)
                let isAdmitted = try test.on { callers.content.admits(request, exchange.content) }
                admitted.append(isAdmitted)
                guard !isAdmitted else { continue }
                let answer = try client.answer()
                #expect(answer.status == 429)
                #expect(answer.headers["retry-after"].flatMap { Int($0) } ?? 0 >= 500)
                #expect(answer.text == "{\n  \"error\" : \"Too many requests\"\n}\n")
            }
            #expect(admitted == [true, true, true, false, true, false])
        }
    }

    @Test func usersHaveLimitsInTheirNamespace() throws {
        let limits = Self.limits { $0.perIdentity = RateLimit(perSecond: 0.001, burst: 1) }
        try withLoop { test in
            let client = try test.client()
            let exchange = try test.exchange(client).exchange
            let user = Identity(.init(auth: .init(children: [(.init("uid"), .string("u"))])))
            try test.on {
                let callers = CallerResolver(test.services(), limits: limits)
                for _ in 0..<3 {
                    #expect(callers.admits(.anonymous(isLoopback: true), in: "a", exchange.content))
                    #expect(callers.admits(Identity(.admin), in: "a", exchange.content))
                }
                #expect(callers.admits(user, in: "a", exchange.content))
                #expect(callers.admits(user, in: "b", exchange.content), "another namespace's user of that name")
                #expect(!callers.admits(user, in: "a", exchange.content))
            }
            #expect(try client.answer().status == 429)
        }
    }

    @Test func writesHaveLimits() throws {
        let limits = Self.limits { $0.writeBytes = RateLimit(perSecond: 100 / 60.0, burst: 100) }
        try withLoop { test in
            let client = try test.client()
            let exchange = try test.exchange(client).exchange
            try test.on {
                let callers = CallerResolver(test.services(), limits: limits)
                #expect(callers.admitsWrite(60, to: "a", exchange.content))
                // A write larger than the remaining budget is admitted, and later writes wait longer.
                #expect(callers.admitsWrite(60, to: "a", exchange.content))
                #expect(callers.admitsWrite(100, to: "b", exchange.content))
                #expect(!callers.admitsWrite(60, to: "a", exchange.content))
            }
            #expect(try client.answer().status == 429)
        }
    }

    // MARK: Identity

    private func identity(
        _ target: String, _ headers: [(String, String)] = [], from address: String = "127.0.0.1"
    ) throws -> Result<Identity, RESTError> {
        var result: Result<Identity, RESTError>?
        try withLoop { test in
            let client = try test.client(from: address)
            let exchange = try test.exchange(client).exchange
            let request = try TestRequest.make("GET", target, headers, from: address)
            let parameters = try RESTParameters(request.query)
            result = try test.on {
                let callers = CallerResolver(test.services(), credentials: Self.dev)
                var found: Identity?
                do throws(RESTError) {
                    try callers.withIdentity(request, parameters, namespace: "db", exchange.content) { found = $0 }
                } catch {
                    return .failure(error)
                }
                return found.map { .success($0) }
            }
        }
        return try #require(result)
    }

    @Test func callersWithoutCredentialsAreAnonymous() throws {
        for headers in [
            [], [("Authorization", "Bearer")], [("Authorization", "Bearer ")], [("Authorization", "Basic x")],
        ] {
            let identity = try identity("/a.json", headers).get()
            #expect(identity.isAnonymous && !identity.mayAdminister)
        }
        #expect(try identity("/a.json?auth=").get().isAnonymous)
        #expect(try !identity("/a.json").get().context.isElsewhere)
        #expect(try identity("/a.json", from: "203.0.113.9").get().context.isElsewhere)
    }

    @Test func theOwnerIsOnThisMachine() throws {
        #expect(try identity("/a.json", [("Authorization", "Bearer owner")]).get().mayOperate)
        #expect(try identity("/a.json?auth=owner").get().mayOperate)
        for address in ["203.0.113.9", "10.0.0.1"] {
            guard case .failure(let error) = try identity("/a.json?auth=owner", from: address) else {
                Issue.record("\(address) is no owner")
                continue
            }
            #expect(error.status == 401)
        }
        let forwarded = try identity("/a.json?auth=owner", [("X-Forwarded-For", "203.0.113.9")])
        if case .success = forwarded { Issue.record("a proxy's client is no owner") }
    }

    @Test func administratorsActAsOthers() throws {
        let override = "auth_variable_override=%7B%22uid%22%3A%22u%22%7D"
        let identity = try identity("/a.json?auth=owner&\(override)").get()
        #expect(identity.uid == "u" && !identity.context.isAdmin && identity.isOverride)
        for (target, status) in [
            ("/a.json?\(override)", 401), ("/a.json?auth=owner&auth_variable_override=x", 400),
            ("/a.json?auth=owner&auth_variable_override=1", 400), ("/a.json?auth=nonsense", 401),
        ] {
            guard case .failure(let error) = try self.identity(target) else {
                Issue.record("\(target) is accepted")
                continue
            }
            #expect(error.status == status, "\(target)")
        }
    }

    /// Checks which identities are known before the request's body arrives.
    @Test func knownIdentities() throws {
        try withLoop { test in
            let callers = try test.on { LoopBound(CallerResolver(test.services(), credentials: Self.dev)) }
            for (target, isAdmin) in [
                ("/a.json?auth=owner", true as Bool?), ("/a.json", false), ("/a.json?auth=nonsense", nil),
            ] {
                let request = try TestRequest.make("PUT", target)
                let parameters = try RESTParameters.settings(request.query)
                let identity = try test.on {
                    callers.content.knownIdentity(request, parameters, namespace: "db")
                }
                #expect(identity?.context.isAdmin == isAdmin, "\(target)")
            }
        }
    }
}
