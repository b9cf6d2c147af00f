import TestSupport
import Testing

@testable import Gateway
@testable import HTTPServer

/// Tests of waiting requests, and of requests whose clients disconnect.
@Suite struct WaitingCallsTests {
    @Test func callsComeBackOnce() throws {
        try withLoop { test in
            let client = try test.client()
            let exchange = try test.exchange(client).exchange
            let template = try TestCall("GET", "/a.json")
            try test.on {
                let calls = WaitingCalls()
                let call = try template.call(exchange.content)
                calls.suspend(call)
                #expect(calls.count == 1)
                #expect(calls.resume(call.exchange.id) === call)
                #expect(calls.resume(call.exchange.id) == nil)
                #expect(calls.count == 0)
            }
        }
    }

    @Test func timersEndWithTheWait() throws {
        try withLoop { test in
            let client = try test.client()
            let exchange = try test.exchange(client).exchange
            let template = try TestCall("GET", "/a.json")
            let fired = LoopBound(0)
            try test.on {
                let calls = WaitingCalls()
                let call = try template.call(exchange.content)
                call.timer = test.loop.schedule(afterMilliseconds: 1) { fired.content += 1 }
                calls.suspend(call)
                _ = calls.resume(call.exchange.id)
                #expect(call.timer == nil)
                // A later timer that is not canceled shows that the canceled one would have fired.
                _ = test.loop.schedule(afterMilliseconds: 5) { fired.content += 100 }
            }
            #expect(try eventually { try test.on { fired.content } >= 100 })
            #expect(try test.on { fired.content } == 100)
        }
    }

    @Test func clientsThatGoAwayAreForgotten() throws {
        try withLoop { test in
            let client = try test.client()
            let exchange = try test.exchange(client).exchange
            let template = try TestCall("GET", "/a.json")
            let calls = try test.on {
                let calls = LoopBound(WaitingCalls())
                exchange.content.endsWithInput = true
                calls.content.suspend(try template.call(exchange.content))
                return calls
            }
            client.shutDown()
            #expect(try eventually { try test.on { calls.content.count == 0 } })
        }
    }
}
