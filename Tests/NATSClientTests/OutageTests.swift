import Glibc
import NATSClient
import Runtime
import TestSupport
import Testing

/// Tests of servers that are unavailable, slow, or refuse the client.
@Suite struct OutageTests {
    @Test func aServerIsKilledAndComesBack() throws {
        let server = try TestNATS()
        try server.addStream("ORDERS", subjects: ["orders.>"])
        let client = try NATSClient.to(server) { $0.timeoutMilliseconds = 60_000 }
        #expect(client.acknowledgement(.order(1)) != nil)
        server.kill()
        let failure = try #require(client.failure(.order(2)))
        #expect(!failure.isPermanent)
        // A message sent immediately afterwards may still use the lost connection.
        let isRefused = eventually {
            if case .unreachable = client.failure(.order(2)) { true } else { false }
        }
        #expect(isRefused, "nobody is there")
        try server.restart()
        #expect(client.acknowledgement(.order(2))?.sequence == 2)
        #expect(client.acknowledgement(.order(1))?.isDuplicate == true, "the stream's window outlives the server")
        #expect(try server.messages(of: "ORDERS").map(\.id) == ["default:1:0", "default:2:0"])
    }

    /// Checks that messages in flight fail immediately when the server dies, and not only at their timeout.
    @Test func messagesInFlightFailWithTheirConnection() throws {
        let server = try TestNATS()
        try server.addStream("ORDERS", subjects: ["orders.>"])
        let client = try NATSClient.to(server) { $0.timeoutMilliseconds = 600_000 }
        #expect(client.acknowledgement(.order(1)) != nil)
        server.pause()
        let failures = Condition<[NATSError]>([])
        for number in 2...4 {
            client.publish(.order(number)) { result in
                if case .failure(let error) = result { failures.broadcast { $0.append(error) } }
            }
        }
        server.kill()
        let all = failures.wait(milliseconds: 60_000) { $0.count == 3 ? $0 : nil }
        #expect(all?.allSatisfy { !$0.isPermanent } == true, "\(all ?? [])")
    }

    @Test func aSlowServerIsGivenUp() throws {
        let server = try TestNATS()
        try server.addStream("ORDERS", subjects: ["orders.>"])
        let client = try NATSClient.to(server) { $0.timeoutMilliseconds = 1_500 }
        // On a busy machine, connecting alone may take longer than this.
        #expect(eventually { client.acknowledgement(.order(1)) != nil })
        server.pause()
        let failure = client.failure(.order(2))
        server.resume()
        #expect(failure == .timedOut(""))
        // The message has arrived, and the stream recognizes it by its id.
        let patient = try NATSClient.to(server)
        #expect(patient.acknowledgement(.order(2)) != nil)
        #expect(eventually { client.acknowledgement(.order(3)) != nil })
        #expect(try server.messages(of: "ORDERS").map(\.id) == (1...3).map { "default:\($0):0" })
    }

    /// Checks that every message has one outcome while the threads of the library, the client and the caller interact.
    @Test func everyMessageHasOneOutcome() throws {
        let server = try TestNATS()
        try server.addStream("ORDERS", subjects: ["orders.>"])
        let client = try NATSClient.to(server)
        let outcomes = Condition<[Int: Int]>([:])
        for number in 1...2_000 {
            if number == 700 { server.kill() }
            if number == 1_400 { try server.restart() }
            client.publish(.order(number)) { _ in outcomes.broadcast { $0[number, default: 0] += 1 } }
        }
        #expect(outcomes.wait(milliseconds: 60_000) { $0.count == 2_000 ? true : nil } == true)
        client.stop()
        #expect(outcomes.withLock { $0.values.allSatisfy { $0 == 1 } })
    }

    /// Checks that the library's threads and sockets end with each connection.
    @Test func lostConnectionsLeaveNothing() throws {
        let server = try TestNATS()
        try server.addStream("ORDERS", subjects: ["orders.>"])
        let client = try NATSClient.to(server)
        #expect(client.acknowledgement(.order(0)) != nil)
        let closed = try TestNATS(["--auth", "another"])
        let stranger = try NATSClient.to(closed)
        _ = stranger.failure(.order(0))
        #expect(Self.connections(1, to: [server.port, closed.port]) == 1)
        for number in 1...10 {
            server.kill()
            _ = client.failure(.order(number))
            try server.restart()
            #expect(eventually { client.acknowledgement(.order(number)) != nil })
            for _ in 1...10 { _ = stranger.failure(.order(number)) }
        }
        #expect(Self.connections(1, to: [server.port, closed.port]) == 1)
        client.stop()
        #expect(Self.connections(0, to: [server.port, closed.port]) == 0)
    }

    /// Waits for the expected number of connections. Returns the final number.
    private static func connections(_ count: Int, to ports: [UInt16]) -> Int {
        _ = eventually { connections(to: ports) == count }
        return connections(to: ports)
    }

    /// Returns the number of this process's sockets whose peer has one of these ports. Other tests use other ports.
    private static func connections(to ports: [UInt16]) -> Int {
        TemporaryFolder.names(in: "/proc/self/fd").compactMap(Int32.init).count { descriptor in
            var address = sockaddr_in()
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let isConnected = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    getpeername(descriptor, $0, &length) == 0
                }
            }
            return isConnected && address.sin_family == sa_family_t(AF_INET)
                && ports.contains(address.sin_port.bigEndian)
        }
    }

    @Test(arguments: [
        NATSSettings.Credentials.none, .token(Secret("wrong")), .password(user: "a", Secret("b")),
    ]) func wrongCredentialsAreRefused(_ credentials: NATSSettings.Credentials) throws {
        let server = try TestNATS(["--auth", "a-secret-token"])
        let client = try NATSClient.to(server) { $0.credentials = credentials }
        let failure = try #require(client.failure(.order(1)))
        guard case .notAuthorized = failure else {
            Issue.record("\(failure)")
            return
        }
        #expect(!failure.description.contains("wrong"))
    }

    @Test func rightCredentialsAreTaken() throws {
        let token = try TestNATS(["--auth", "a-secret-token"])
        let byToken = try NATSClient.to(token) { $0.credentials = .token(Secret("a-secret-token")) }
        #expect(byToken.failure(.order(1)) == .noStream(subject: "orders.new"))
        let password = try TestNATS(["--user", "gateway", "--pass", "p"])
        let byPassword = try NATSClient.to(password) { $0.credentials = .password(user: "gateway", Secret("p")) }
        #expect(byPassword.failure(.order(1)) == .noStream(subject: "orders.new"))
    }

    @Test func certificatesAreChecked() throws {
        let folder = TemporaryFolder.path("nats-tls")
        defer { TemporaryFolder.remove(folder) }
        try #require(mkdir(folder, 0o700) == 0)
        for (name, text) in [("key", TestCertificates.rsaKey), ("certificate", TestCertificates.rsaCertificate)] {
            let file = try #require(fopen("\(folder)/\(name)", "w"))
            fputs(text, file)
            fclose(file)
        }
        let server = try TestNATS(["--tls", "--tlscert", folder + "/certificate", "--tlskey", folder + "/key"])
        let address = "tls://localhost:\(server.port)"
        var settings = NATSSettings(servers: [address])
        let untrusting = try NATSClient(settings)
        guard case .insecure = untrusting.failure(.order(1)) else {
            Issue.record("an unknown certificate was trusted")
            return
        }
        settings.certificateAuthoritiesFile = folder + "/certificate"
        let trusting = try NATSClient(settings)
        #expect(trusting.failure(.order(1)) == .noStream(subject: "orders.new"))
        // The certificate is for localhost.
        settings.servers = ["tls://127.0.0.1:\(server.port)"]
        guard case .insecure = try NATSClient(settings).failure(.order(1)) else {
            Issue.record("a certificate for another host was trusted")
            return
        }
        settings.servers = [server.url]
        guard case .insecure = try NATSClient(settings).failure(.order(1)) else {
            Issue.record("the server asks for TLS")
            return
        }
    }

    @Test func stoppingFailsMessagesInFlight() throws {
        let server = try TestNATS()
        let client = try NATSClient.to(server) { $0.timeoutMilliseconds = 600_000 }
        #expect(client.failure(.order(1)) == .noStream(subject: "orders.new"))
        server.pause()
        defer { server.resume() }
        let failures = Condition<[NATSError]>([])
        for number in 2...4 {
            client.publish(.order(number)) { result in
                if case .failure(let error) = result { failures.broadcast { $0.append(error) } }
            }
        }
        client.stop()
        #expect(failures.wait(milliseconds: 60_000) { $0.count == 3 ? $0 : nil } == [.stopped, .stopped, .stopped])
        #expect(client.failure(.order(5)) == .stopped)
    }

    @Test func messagesAreBounded() throws {
        let server = try TestNATS()
        server.pause()
        defer { server.resume() }
        let client = try NATSClient.to(server) { settings in
            settings.maxMessages = 3
            settings.timeoutMilliseconds = 600_000
        }
        for number in 1...3 { client.publish(.order(number)) { _ in } }
        #expect(client.failure(.order(4)) == .tooManyMessages)
    }
}
