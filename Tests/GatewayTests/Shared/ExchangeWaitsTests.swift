import TestSupport
import Testing

@testable import Gateway
@testable import HTTPServer

/// Tests of requests that wait for a result from another thread.
@Suite struct ExchangeWaitsTests {
    private final class Token {}

    @Test func theResultComesBackToTheLoop() throws {
        try withLoop { test in
            let client = try test.client()
            let exchange = try test.exchange(client).exchange
            let result = try test.on {
                let waits = ExchangeWaits<Int>(test.loop)
                let known = waits.wait(exchange.content) { value in
                    #expect(test.loop.isCurrent)
                    #expect(waits.count == 0)
                    exchange.content.respond(status: 200, body: Array("\(value)".utf8))
                }
                #expect(waits.count == 1)
                return (waits, known)
            }
            result.1(42)
            #expect(try client.head().status == 200)
            withExtendedLifetime(result) {}
        }
    }

    /// Checks that a result is never delivered inside the call that waits for it, even if it is available immediately.
    @Test func resultsComeInWorkOfTheirOwn() throws {
        try withLoop { test in
            let client = try test.client()
            let exchange = try test.exchange(client).exchange
            let order = LoopBound<[String]>([])
            let waits = try test.on {
                let waits = ExchangeWaits<Int>(test.loop)
                waits.wait(exchange.content) { _ in order.content.append("result") }(1)
                order.content.append("returned")
                return waits
            }
            #expect(try test.on { order.content } == ["returned", "result"])
            withExtendedLifetime(waits) {}
        }
    }

    @Test func clientsThatGoAwayAreForgotten() throws {
        try withLoop { test in
            let client = try test.client()
            let exchange = try test.exchange(client).exchange
            let isCalled = LoopBound(false)
            weak var kept: Token?
            let (waits, known) = try test.on {
                let waits = ExchangeWaits<Int>(test.loop)
                exchange.content.endsWithInput = true
                let token = Token()
                kept = token
                let known = waits.wait(exchange.content) { _ in
                    withExtendedLifetime(token) { isCalled.content = true }
                }
                return (waits, known)
            }
            #expect(kept != nil)
            client.shutDown()
            #expect(try eventually { try test.on { waits.count == 0 } })
            #expect(kept == nil, "what went on with the request is not kept")
            known(1)
            #expect(try test.on { !isCalled.content })
        }
    }

    @Test func secondResultsDoNothing() throws {
        try withLoop { test in
            let client = try test.client()
            let exchange = try test.exchange(client).exchange
            let values = LoopBound<[Int]>([])
            let (waits, known) = try test.on {
                let waits = ExchangeWaits<Int>(test.loop)
                return (waits, waits.wait(exchange.content) { values.content.append($0) })
            }
            known(1)
            known(2)
            #expect(try test.on { values.content } == [1])
            withExtendedLifetime(waits) {}
        }
    }

    @Test func waitsCanBeCancelled() throws {
        try withLoop { test in
            let client = try test.client()
            let exchange = try test.exchange(client).exchange
            let isCalled = LoopBound(false)
            let (waits, known) = try test.on {
                let waits = ExchangeWaits<Int>(test.loop)
                let known = waits.wait(exchange.content) { _ in isCalled.content = true }
                waits.cancel(exchange.content)
                return (waits, known)
            }
            known(1)
            #expect(try test.on { !isCalled.content })
            withExtendedLifetime(waits) {}
        }
    }

    @Test func requestsWaitBesideOneAnother() throws {
        try withLoop { test in
            let clients = try (0..<5).map { _ in try test.client() }
            let exchanges = try clients.map { try test.exchange($0).exchange }
            let (waits, known) = try test.on {
                let waits = ExchangeWaits<Int>(test.loop)
                let known = exchanges.map { exchange in
                    waits.wait(exchange.content) { value in
                        exchange.content.respond(status: 200 + value, body: [])
                    }
                }
                return (waits, known)
            }
            for (index, known) in known.enumerated().reversed() { known(index) }
            for (index, client) in clients.enumerated() { #expect(try client.head().status == 200 + index) }
            withExtendedLifetime(waits) {}
        }
    }
}
