import ClientSupport
import Foundation
import TestSupport

/// The network faults of a client.
extension ModelRound {
    func fail(_ client: ModelClient) async throws {
        guard let proxy = client.proxy else { return }
        figures.faults += 1
        let roll = random.below(7)
        story.append("the network of \(client.number) fails (\(roll))")
        switch roll {
        case 0: proxy.cutAll()
        case 1: proxy.cutAfter(bytes: random.below(4_000))
        case 2:
            proxy.setDown(true)
            try await pause(200)
            proxy.setDown(false)
        case 3: proxy.setDelay(milliseconds: random.below(30))
        case 4:
            proxy.setSilent(true)
            // Often until the client notices, and often for a shorter time.
            try await pause(random.oneIn(3) ? 1_500 : 100)
            proxy.setSilent(false)
        case 5:
            // The next connection is cut as well, at any point of its greeting and login.
            let count = proxy.acceptedCount
            proxy.cutAll()
            for _ in 0..<100 where proxy.acceptedCount == count { try await pause(10) }
            proxy.cutAfter(bytes: random.below(400))
        default: proxy.setDelay(milliseconds: 0)
        }
    }

    private func pause(_ milliseconds: Int) async throws {
        try await Task.sleep(for: .milliseconds(random.below(milliseconds) + 1))
    }

    /// Restores a working network, with new connections only: data lost on the old ones stays lost.
    func calm(_ proxy: FaultProxy?) {
        guard let proxy else { return }
        proxy.setSilent(false)
        proxy.setDown(false)
        proxy.setDelay(milliseconds: 0)
        proxy.cutAfter(bytes: nil)
        proxy.cutAll()
    }
}
