import ClientCore
import ClientSupport
import Glibc
import TestSupport
import Testing
import Tree
import WebSocketClient
import Wire

/// Checks a machine over sockets and an unreliable network: every write is answered once, and the listener has the
/// server's data.
@Suite(.timeLimit(.minutes(4))) struct FaultTests {
    private static let root = Path(splitting: "/w")

    private func settings(_ port: UInt16) -> ConnectionSettings {
        var settings = ConnectionSettings(host: "127.0.0.1", port: port, isSecure: false, namespace: "demo")
        settings.firstRetry = 5
        settings.longestRetry = 50
        settings.pingWhenOwed = 200
        settings.pingWhenIdle = 400
        settings.pongTimeout = 400
        settings.connectTimeout = 2_000
        return settings
    }

    @Test(arguments: 0..<4) func nothingIsLostOverABadNetwork(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let gateway = try ModelGateway()
        let proxy = try FaultProxy(target: gateway.port)
        defer { proxy.stop() }
        let driver = MachineDriver(settings(proxy.port), try WebSocketTransport(), seed: seed)
        defer { driver.stop() }
        driver.call { $0.listen(QuerySpec(path: Self.root), tag: nil, now: $1) }
        driver.call { $0.goOnline(now: $1) }
        let count: Int64 = 300
        for id in 1...count {
            let text = String(repeating: "é", count: random.oneIn(20) ? 30_000 : random.below(200))
            let path = Self.root.appending(Path(splitting: "k\(id)"))
            driver.call { machine, now in
                let write = PendingWrite(id: WriteID(rawValue: id), path: path, content: .overwrite(.string(text)))
                // Some writes are transactions on paths without a value.
                machine.write(write, hash: id % 5 == 0 ? "" : nil, now: now)
            }
            if random.oneIn(12) { fail(proxy, &random) }
            // The network fails while writes are in flight, not after all of them.
            if id % 20 == 0 { #expect(driver.wait { Self.answers($0).count >= Int(id) - 40 }) }
        }
        proxy.setSilent(false)
        proxy.setDown(false)
        proxy.setDelay(milliseconds: 0)
        proxy.cutAfter(bytes: nil)
        #expect(driver.wait { Self.answers($0).count >= Int(count) })
        let answers = Self.answers(driver.reported)
        #expect(answers.count == Int(count))
        #expect(Set(answers.map(\.0)).count == Int(count), "each once")
        for (id, outcome) in answers where outcome != .done {
            #expect(outcome == .lost && id.rawValue % 5 == 0, "\(id): \(outcome)")
        }
        // Once connected, the listener has all of the server's data.
        let tree = gateway.tree[Self.root]
        #expect(driver.wait { Self.heard($0) == tree })
        for (id, outcome) in answers where outcome == .done {
            #expect(!tree[Path(splitting: "k\(id.rawValue)")].isNull)
        }
    }

    /// Checks that a network that silently loses all data is detected, and that a new connection is opened.
    @Test func halfOpenConnectionsAreLeft() throws {
        let gateway = try ModelGateway()
        let proxy = try FaultProxy(target: gateway.port)
        defer { proxy.stop() }
        let driver = MachineDriver(settings(proxy.port), try WebSocketTransport())
        defer { driver.stop() }
        driver.call { $0.goOnline(now: $1) }
        #expect(driver.wait { $0.contains { if case .connected = $0 { true } else { false } } })
        proxy.setSilent(true)
        driver.call { machine, now in
            let write = PendingWrite(id: WriteID(rawValue: 1), path: Self.root, content: .overwrite(.int(1)))
            machine.write(write, now: now)
        }
        #expect(driver.wait { $0.contains(.disconnected(reason: "the server does not respond")) })
        proxy.setSilent(false)
        #expect(driver.wait { Self.answers($0).count == 1 })
        #expect(gateway.tree[Self.root] == .int(1))
    }

    private func fail(_ proxy: FaultProxy, _ random: inout SeededGenerator) {
        switch random.below(6) {
        case 0: proxy.cutAll()
        case 1: proxy.cutAfter(bytes: random.below(3_000))
        case 2:
            proxy.setDown(true)
            usleep(UInt32(random.below(30_000)))
            proxy.setDown(false)
        case 3: proxy.setDelay(milliseconds: random.below(4))
        case 4:
            proxy.setSilent(true)
            usleep(UInt32(random.below(20_000)))
            proxy.setSilent(false)
        default: usleep(UInt32(random.below(20_000)))
        }
    }

    private static func answers(_ reports: [ConnectionReport]) -> [(WriteID, RequestOutcome)] {
        reports.compactMap { if case .writeAnswered(let id, let outcome, _) = $0 { (id, outcome) } else { nil } }
    }

    /// The value at the listened path, built from the pushes.
    private static func heard(_ reports: [ConnectionReport]) -> Node {
        var tree = Node.null
        for case .changed(let event, _, _) in reports {
            switch event {
            case .put(let path, let value): tree = tree.replacing(path, with: value)
            case .patch(let path, let changes):
                for change in changes { tree = tree.replacing(path.appending(change.path), with: change.value) }
            }
        }
        return tree[root]
    }
}
