import LogStore
import TestSupport
import Testing
import Tree

/// Checks that running gateways learn of rules that a command stores without waiting for their next look at the heads.
@Suite struct RulesAnnouncementTests {
    @Test func storedRulesAreAnnounced() throws {
        try withDatabase { url in
            let connection = try LogConnection(url)
            let listener = try LogConnection(url)
            defer {
                connection.close()
                listener.close()
            }
            let record = try connection.make()
            try listener.listen(to: [.commits])
            let origin = Origin(uid: nil, isAdmin: true, via: .cli, address: nil)
            for seq: Int64 in [1, 2] {
                let source = seq == 1 ? Array(#"{"rules":{}}"#.utf8) : []
                #expect(try connection.setRules(record.id, source: source, origin: origin) == seq)
                #expect(
                    try eventually {
                        try listener.waitForAnnouncements(milliseconds: 100, wake: nil)
                            .contains(.commit(namespace: record.id, head: seq))
                    })
            }
        }
    }
}
