import CEvent
import Glibc
import Runtime
import Synchronization
import Testing

@testable import HTTPServer

/// Checks that a port belongs to one server at a time, however many loops each server has.
@Suite struct ListeningSocketTests {
    private static func settings(_ port: UInt16, loops: Int, sharing: Bool = false) -> HTTPServerSettings {
        var settings = HTTPServerSettings()
        settings.addresses = [ListenAddress(host: "127.0.0.1", port: port)]
        settings.loops = loops
        settings.sharesPorts = sharing
        return settings
    }

    private static func close(_ sockets: [[ListeningSocket]]) {
        for socket in sockets.joined() { socket.closeDescriptor() }
    }

    /// Returns how many of several servers that start at the same moment get a port.
    private static func winners(among contenders: Int, at port: UInt16, loops: Int, sharing: Bool = false) -> Int {
        let won = MutexBox<[[[ListeningSocket]]]>([])
        let wrong = MutexBox<[String]>([])
        let gate = Gate(contenders)
        let threads = (0..<contenders).map { _ in
            Thread(name: "contender") {
                gate.pass()
                do throws(HTTPServerError) {
                    let opened = try ListeningSocket.open(Self.settings(port, loops: loops, sharing: sharing))
                    won.withLock { $0.append(opened) }
                } catch {
                    if case .cannotListen(_, _, EADDRINUSE) = error { return }
                    wrong.withLock { $0.append("\(error)") }
                }
            }
        }
        for thread in threads { thread.join() }
        #expect(wrong.withLock { $0 } == [])
        let all = won.withLock { $0 }
        for opened in all { Self.close(opened) }
        return all.count
    }

    @Test(arguments: [1, 2, 3]) func oneOfSeveralThatBeginAtTheSameMomentGetsThePort(loops: Int) throws {
        let port = try BoundPort()
        for round in 0..<500 {
            try #require(Self.winners(among: 3, at: port.number, loops: loops) == 1, "round \(round)")
        }
    }

    @Test func addressesAreCheckedBeforeAServerStarts() throws {
        let port = try BoundPort()
        let settings = Self.settings(port.number, loops: 2)
        try settings.checkAddresses()
        // The check leaves the port free.
        let opened = try ListeningSocket.open(settings)
        #expect {
            try settings.checkAddresses()
        } throws: { error in
            if case HTTPServerError.cannotListen(_, _, EADDRINUSE) = error { true } else { false }
        }
        Self.close(opened)
        try settings.checkAddresses()
    }

    @Test func allGetThePortWhereTheyShareIt() throws {
        let port = try BoundPort()
        #expect(Self.winners(among: 3, at: port.number, loops: 2, sharing: true) == 3)
    }

    /// The kernel gives each loop's socket some of the connections.
    @Test func allLoopsOfAServerGetConnections() throws {
        let opened = try ListeningSocket.open(Self.settings(0, loops: 3))
        defer { Self.close(opened) }
        let port = try #require(opened.first?.first).address.port
        #expect(opened.joined().allSatisfy { $0.address.port == port })
        let clients = try (0..<300).map { _ in try TestClient(port: port) }
        defer { for client in clients { client.close() } }
        let counts = opened.map { sockets in
            var count = 0
            for socket in sockets {
                while true {
                    let accepted = accept(socket.descriptor, nil, nil)
                    // The sockets are non-blocking.
                    guard accepted >= 0 else { break }
                    Glibc.close(accepted)
                    count += 1
                }
            }
            return count
        }
        #expect(counts.reduce(0, +) == 300 && counts.allSatisfy { $0 > 30 }, "\(counts)")
    }
}

/// A port of 127.0.0.1 that the kernel does not assign to sockets that request any free port. Servers can listen on it,
/// because the socket that holds it does not listen.
private final class BoundPort {
    let number: UInt16
    private let holder: Int32

    init() throws {
        holder = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var one: Int32 = 1
        setsockopt(holder, SOL_SOCKET, SO_REUSEADDR, &one, socklen_t(MemoryLayout<Int32>.size))
        var (address, length) = try #require(ListenAddress(host: "127.0.0.1", port: 0).makeSocketAddress())
        try #require(pathmirror_bind(holder, &address, length) == 0)
        try #require(pathmirror_local_address(holder, &address) == 0)
        number = PeerAddress(address).port
    }

    deinit { close(holder) }
}

/// Releases threads together once all of them have arrived.
private final class Gate: Sendable {
    private let missing: Atomic<Int>

    init(_ count: Int) { missing = Atomic(count) }

    func pass() {
        missing.subtract(1, ordering: .acquiringAndReleasing)
        while missing.load(ordering: .acquiring) > 0 {}
    }
}
