import Testing

@testable import LogStore

/// Which servers a program goes on with.
@Suite struct ServerFenceTests {
    @Test func promotionsAreFollowedAndNotUndone() throws {
        let fence = ServerFence()
        #expect(try fence.admit(ServerIdentity(system: 7, timeline: 3)) == .known)
        #expect(try fence.admit(ServerIdentity(system: 7, timeline: 3)) == .known)
        #expect(try fence.admit(ServerIdentity(system: 7, timeline: 5)) == .promoted(from: 3, to: 5))
        let refused = #expect(throws: LogStoreError.self) {
            try fence.admit(ServerIdentity(system: 7, timeline: 3))
        }
        #expect(refused?.isConnectionLost == true)
        #expect(refused.map { "\($0)".contains("timeline 3") && "\($0)".contains("timeline 5") } == true)
        #expect(try fence.admit(ServerIdentity(system: 7, timeline: 5)) == .known)
    }

    /// Timelines of different clusters say nothing of each other.
    @Test func anotherCluster() throws {
        let fence = ServerFence()
        #expect(try fence.admit(ServerIdentity(system: 7, timeline: 3)) == .known)
        #expect(try fence.admit(ServerIdentity(system: 8, timeline: 1)) == .another)
        #expect(try fence.admit(ServerIdentity(system: 8, timeline: 1)) == .known)
    }

    @Test func whoeverMayNotAskComparesNothing() throws {
        let fence = ServerFence()
        #expect(try fence.admit(ServerIdentity(system: nil, timeline: 3)) == .known)
        #expect(try fence.admit(ServerIdentity(system: nil, timeline: 1)) == .known)
    }
}
