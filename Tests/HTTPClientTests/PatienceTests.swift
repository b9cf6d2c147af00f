import HTTPClient
import HTTPServer
import Runtime
import TestSupport
import Testing

/// Tests of the limits on time and size that end a request before its server does.
@Suite struct PatienceTests {
    @Test(arguments: [
        "HTTP/1.1 201 Created\r\nContent-Length: 2000000\r\n\r\n",
        "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\n",
        "HTTP/1.1 201 Created\r\n\r\n",
    ]) func longResponsesAreCutOff(_ head: String) throws {
        // The rest never arrives, and the client does not wait for it.
        let server = try RawServer([head + String(repeating: "x", count: 5_000)], .staysSilent)
        let client = try HTTPClient()
        defer { client.stop() }
        var request = HTTPClientRequest.plain(server.url())
        request.maxResponseBytes = 4_000
        request.truncatesResponse = true
        let response = try #require(try withExtendedLifetime(server) { try client.result(request)?.get() })
        #expect(response.status == 201 && response.isTruncated && response.body.count == 4_000)
    }

    @Test func whatFitsIsWhole() throws {
        let server = try RawServer(["HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody"])
        let client = try HTTPClient()
        defer { client.stop() }
        var request = HTTPClientRequest.plain(server.url())
        request.maxResponseBytes = 4
        request.truncatesResponse = true
        let response = try #require(try client.result(request)?.get())
        #expect(!response.isTruncated && response.body.count == 4)
    }

    /// Checks that a large body is sent without `Expect: 100-continue`: many servers never answer it, which costs a
    /// second.
    @Test func noUploadWaitsForPermission() throws {
        let server = try RawServer(["HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"])
        let client = try HTTPClient()
        defer { client.stop() }
        var request = HTTPClientRequest.plain(server.url())
        request.method = "POST"
        request.body = [UInt8](repeating: 0x61, count: 3_000_000)
        _ = client.result(request)
        #expect(server.requests.first?.lowercased().contains("content-length: 3000000") == true)
        #expect(server.requests.first?.lowercased().contains("expect") == false)
    }

    /// Checks that a request whose time expires while it waits is not sent.
    @Test func waitingCountsToo() throws {
        let seen = MutexBox(0)
        let server = try LocalServer { _, _ in seen.withLock { $0 += 1 } }
        var settings = HTTPClient.Settings()
        settings.maxConnections = 1
        let client = try HTTPClient(settings)
        defer { client.stop() }
        let outcomes = Condition<[HTTPClientError?]>([])
        for patience in [300, 100] as [Milliseconds] {
            var request = HTTPClientRequest.plain(server.url("/"))
            request.timeoutMilliseconds = patience
            client.send(request) { result in
                outcomes.broadcast { outcomes in
                    if case .failure(let error) = result { outcomes.append(error) } else { outcomes.append(nil) }
                }
            }
        }
        let both = outcomes.wait(milliseconds: 60_000) { $0.count == 2 ? $0 : nil }
        #expect(both == [.notSent("no slot was free in time"), .timedOut])
        #expect(seen.withLock { $0 } == 1)
    }

    @Test func cancelling() throws {
        let arrived = Condition(0)
        let server = try LocalServer { request, exchange in
            if request.targetText == "/answered" {
                exchange.respond(status: 200)
                return
            }
            arrived.broadcast { $0 += 1 }
        }
        var settings = HTTPClient.Settings()
        settings.maxConnections = 1
        let client = try HTTPClient(settings)
        defer { client.stop() }
        let outcomes = Condition<[String: HTTPClientError]>([:])
        let send = { (name: String) in
            client.send(.plain(server.url("/" + name))) { result in
                if case .failure(let error) = result { outcomes.broadcast { $0[name] = error } }
            }
        }
        let (inFlight, waiting) = (send("underWay"), send("waiting"))
        #expect(arrived.wait(milliseconds: 30_000) { $0 == 1 ? true : nil } == true)
        client.cancel(waiting)
        #expect(outcomes.withLock { $0 } == ["waiting": .cancelled])
        client.cancel(inFlight)
        #expect(
            outcomes.wait(milliseconds: 30_000) { $0.count == 2 ? $0 : nil }
                == ["waiting": .cancelled, "underWay": .cancelled])
        // The slot is free again. Canceling an ended request has no effect.
        for id in [inFlight, waiting] { client.cancel(id) }
        #expect(try client.result(.plain(server.url("/answered")))?.get().status == 200)
        #expect(arrived.withLock { $0 } == 1)
    }
}
