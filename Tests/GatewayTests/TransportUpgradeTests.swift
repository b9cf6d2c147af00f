import Testing
import Wire

@testable import Gateway

@Suite struct TransportUpgradeTests {
    private func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }
    private let ping = Array(#"{"t":"c","d":{"t":"p","d":{}}}"#.utf8)
    private let move = Array(#"{"t":"c","d":{"t":"a","d":{}}}"#.utf8)
    private let request = Array(#"{"t":"d","d":{"r":1,"a":"s","b":{}}}"#.utf8)

    @Test func requestsWaitFromTheMoveOn() {
        var upgrade = TransportUpgrade(maxBytes: 1_000)
        var step = upgrade.take(ping)
        #expect(step == .answer(ServerMessage.pong))
        step = upgrade.take(move)
        #expect(step == .nothing)
        step = upgrade.take(request)
        #expect(step == .nothing)
        #expect(upgrade.waiting == [request])
    }

    @Test func messagesOutOfOrderFail() {
        for message in [request, bytes("nonsense"), bytes("{}"), []] {
            var upgrade = TransportUpgrade(maxBytes: 1_000)
            let step = upgrade.take(message)
            #expect(step == .fail)
        }
    }

    @Test func whatWaitsIsBounded() {
        var upgrade = TransportUpgrade(maxBytes: 1_000)
        _ = upgrade.take(move)
        var taken = 0
        while upgrade.take(request) == .nothing { taken += 1 }
        #expect(taken > 0 && upgrade.waiting.count == taken && taken * request.count <= 1_000)
    }
}
