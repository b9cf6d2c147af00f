import Engine
import Placement
import TestSupport
import Testing

@testable import Gateway
@testable import HTTPServer

/// Tests of `NamespaceWaits`, in which all requests wait for a namespace.
@Suite struct NamespaceWaitsTests {
    private func withWaits(
        _ change: (inout EngineSettings) -> Void = { _ in },
        _ body: (TestLoop, TestEngine, LoopBound<NamespaceWaits>) throws -> Void
    ) throws {
        try withEngines(1) { settings, _ in
            change(&settings)
        } _: { _, engines in
            try withLoop { test in
                let engine = engines[0]
                let waits = try test.on {
                    LoopBound(NamespaceWaits(Databases(primary: engine.engine), test.services()))
                }
                try body(test, engine, waits)
            }
        }
    }

    @Test func requestsWaitUntilItIsLoaded() throws {
        try withWaits { test, _, waits in
            #expect(try test.on { waits.content.loaded("n") == nil })
            let clients = try (0..<3).map { _ in try test.client() }
            let exchanges = try clients.map { try test.exchange($0).exchange }
            try test.on {
                for exchange in exchanges {
                    waits.content.whenLoaded("n", exchange.content) { namespace in
                        #expect(test.loop.isCurrent)
                        exchange.content.respond(status: 200, body: Array(namespace.name.utf8))
                    }
                }
            }
            for client in clients { #expect(try client.answer().text == "n") }
            #expect(try test.on { waits.content.loaded("n")?.name } == "n")
        }
    }

    /// Checks that work runs after the call that requests it, even if the namespace is already loaded.
    @Test func workComesLater() throws {
        try withWaits { test, engine, waits in
            _ = try engine.namespace("n")
            let client = try test.client()
            let exchange = try test.exchange(client).exchange
            let order = LoopBound<[String]>([])
            try test.on {
                waits.content.whenLoaded("n", exchange.content) { _ in order.content.append("work") }
                order.content.append("returned")
            }
            #expect(try eventually { try test.on { order.content.count == 2 } })
            #expect(try test.on { order.content } == ["returned", "work"])
        }
    }

    @Test func namespacesThatAreNotThereAreSaid() throws {
        try withWaits {
            $0.createsNamespaces = false
        } _: { test, _, waits in
            let client = try test.client()
            let exchange = try test.exchange(client).exchange
            let isCalled = LoopBound(false)
            try test.on { waits.content.whenLoaded("none", exchange.content) { _ in isCalled.content = true } }
            let answer = try client.answer()
            #expect(answer.status == 404)
            #expect(answer.text.contains("There is no namespace \\\"none\\\" here"))
            #expect(try test.on { !isCalled.content })
        }
    }
}
