import HTTPServer
import Testing

@testable import Gateway

/// Tests of which route serves each path and method.
@Suite struct RouteTests {
    private func route(_ method: HTTPMethod, _ path: String) -> Route {
        // Paths are slices of longer buffers, so their indices do not start at zero.
        let bytes = Array("xxx\(path)yyy".utf8)
        return Route(method, bytes[3..<(3 + path.utf8.count)])
    }

    @Test(
        arguments: [
            "", "/", "/a", "/.", "/a.json", "/.json", "/.priority.json", "/a/.json", "/a/.priority.json",
            "/a/.ws", "/a/.metrics", "/a/.health/live", "*",
        ])
    func pathsOfData(_ path: String) {
        for method in [HTTPMethod.get, .head, .put, .post, .patch, .delete] {
            #expect(route(method, path) == .data, "\(method) \(path)")
        }
    }

    @Test(
        arguments: [
            ("/.health/live", Route.live), ("/.health/ready", .ready), ("/.metrics", .metrics),
        ])
    func operatorsRead(_ path: String, _ wanted: Route) {
        #expect(route(.get, path) == wanted)
        #expect(route(.head, path) == wanted)
        for method in [HTTPMethod.put, .post, .patch, .delete] { #expect(route(method, path) == .nothing) }
    }

    /// Checks the routes whose handlers check the method themselves.
    @Test(
        arguments: [
            ("/.ws", Route.webSocket), ("/.lp", .longPoll), ("/.settings/rules.json", .rules),
            ("/.log", .log), ("/.openapi.json", .description),
        ])
    func handlersOfEveryMethod(_ path: String, _ wanted: Route) {
        for method in [HTTPMethod.get, .head, .put, .post, .patch, .delete] { #expect(route(method, path) == wanted) }
    }

    @Test(
        arguments: [
            "/.health", "/.health/", "/.health/live/", "/.metrics/", "/.metrics.json", "/.ws/", "/.WS", "/.lp.json",
            "/.settings", "/.settings/rules", "/.log/", "/.log.json", "/.logs", "/.openapi", "/.openapi.json/",
            "/.settings/rules.json/", "/.a.json", "/.jsonx", "/.priority",
            "/.%77s", "/..",
        ])
    func pathsOfNothing(_ path: String) {
        for method in [HTTPMethod.get, .put, .delete] { #expect(route(method, path) == .nothing, "\(path)") }
    }

    @Test func browsersAskBeforeEverything() {
        for path in ["*", "/a.json", "/.json", "/.ws", "/.metrics", "/.nothing"] {
            #expect(route(.options, path) == .preflight)
        }
    }
}
