import HTTPServer
import Testing
import Tokens

@testable import Gateway

/// Checks that the document lists all resources of the gateway and no others. `e2e/test_openapi.py` checks from outside
/// that the document is valid OpenAPI and describes the actual answers.
struct DescriptionTests {
    private static let methods: [(name: String, method: HTTPMethod)] = [
        ("get", .get), ("head", .head), ("put", .put), ("post", .post), ("patch", .patch), ("delete", .delete),
    ]

    /// All paths and methods in the document, with example values for the parameters.
    private func described() throws -> [(path: String, method: HTTPMethod)] {
        let document = try ClaimsReader.object(DescriptionHandler.document)
        let paths = try #require(document["paths"]?.object)
        return paths.members.flatMap { path -> [(path: String, method: HTTPMethod)] in
            let example = path.name.replacing("{path}", with: "a/b").replacing("{feed}", with: "orders")
            return Self.methods.filter { path.value.object?[$0.name] != nil }.map { (example, $0.method) }
        }
    }

    private func route(_ path: String, _ method: HTTPMethod) -> Route { Route(method, Array(path.utf8)[...]) }

    /// Returns an example path of a route, or nil for routes that are not resources. Each new route must be added here
    /// and to the document.
    private static func example(of route: Route) -> String? {
        switch route {
        // Only `pathmirror dev` serves functions.
        case .preflight, .nothing, .functions: nil
        case .data: "/a/b.json"
        case .live: "/.health/live"
        case .ready: "/.health/ready"
        case .metrics: "/.metrics"
        case .webSocket: "/.ws"
        case .longPoll: "/.lp"
        case .rules: "/.settings/rules.json"
        case .feeds: "/.feeds"
        case .log: "/.log"
        case .token: "/.oauth2/token"
        case .description: "/.openapi.json"
        }
    }

    @Test func `every route is described`() throws {
        let described = try described()
        for route in [
            Route.data, .live, .ready, .metrics, .webSocket, .longPoll, .rules, .feeds, .log, .description,
        ] {
            let path = try #require(Self.example(of: route))
            #expect(self.route(path, .get) == route)
            #expect(described.contains { $0.path == path && $0.method == .get }, "\(path) is not in the document")
        }
        let path = try #require(Self.example(of: .token))
        #expect(self.route(path, .post) == .token)
        #expect(described.contains { $0.path == path && $0.method == .post }, "\(path) is not in the document")
    }

    @Test func `what is described is there`() throws {
        let described = try described()
        #expect(described.count > 25)
        for (path, method) in described {
            #expect(route(path, method) != .nothing, "\(method) \(path)")
            guard path.hasPrefix("/.feeds") else { continue }
            #expect(throws: Never.self, "\(method) \(path)") { try FeedPath(method, Array(path.utf8)[...]) }
        }
    }

    /// Checks that operation ids are unique: client generators use them as names of functions.
    @Test func `each operation has a name of its own`() throws {
        let document = try ClaimsReader.object(DescriptionHandler.document)
        let operations = try #require(document["paths"]?.object).members.flatMap { path in
            Self.methods.compactMap { path.value.object?[$0.name]?.object }
        }
        let names = operations.compactMap { $0["operationId"]?.string }
        #expect(names.count == operations.count && Set(names).count == names.count)
        #expect(names.allSatisfy { $0.utf8.allSatisfy { (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0) } })
    }
}
