import LogStore
import Postgres
import TestSupport
import Testing

/// What gateways tell one another by PostgreSQL.
@Suite struct PeerMessageTests {
    /// The messages that come until one has this text.
    private func messages(_ connection: LogConnection, through last: String) throws -> [PeerMessage] {
        var found: [PeerMessage] = []
        for _ in 0..<200 {
            for announcement in try connection.waitForAnnouncements(milliseconds: 100, wake: nil) {
                guard case .message(let message) = announcement else { continue }
                found.append(message)
                if message.text == last { return found }
            }
        }
        return found
    }

    private func message(_ text: String, from sender: String = "a") throws -> PeerMessage {
        try #require(PeerMessage(sender: sender, text: text))
    }

    @Test func everybodyWhoListensHears() throws {
        try withDatabase { url in
            let listeners = try (0..<3).map { _ in try LogConnection(url) }
            let teller = try LogConnection(url)
            defer { for connection in listeners + [teller] { connection.close() } }
            for listener in listeners { try listener.listen(to: [.commits, .messages]) }
            // Spaces and what else a path may have are kept.
            let texts = ["turn asks 1 /a b", "é \u{1F600}", "  two  spaces ", "end"]
            for text in texts { try teller.tellPeers(try message(text)) }
            for listener in listeners {
                let heard = try messages(listener, through: "end")
                #expect(heard.map(\.text) == texts)
                #expect(heard.allSatisfy { $0.sender == "a" })
            }
        }
    }

    @Test func messagesOfOneConnectionKeepTheirOrder() throws {
        try withDatabase { url in
            let (listener, teller) = (try LogConnection(url), try LogConnection(url))
            defer {
                listener.close()
                teller.close()
            }
            try listener.listen(to: [.commits, .messages])
            for number in 0..<200 { try teller.tellPeers(try message("\(number)")) }
            #expect(try messages(listener, through: "199").map(\.text) == (0..<200).map(String.init))
        }
    }

    @Test func whoTellsHearsItToo() throws {
        try withSession { connection in
            try connection.listen(to: [.commits, .messages])
            try connection.tellPeers(try message("self"))
            #expect(try messages(connection, through: "self").map(\.text) == ["self"])
        }
    }

    /// PostgreSQL carries 7,999 bytes.
    @Test func aMessageIsBounded() throws {
        try withSession { connection in
            try connection.listen(to: [.commits, .messages])
            let longest = String(repeating: "x", count: 7_997)
            try connection.tellPeers(try message(longest))
            #expect(try messages(connection, through: longest).count == 1)
            #expect(PeerMessage(sender: "a", text: longest + "x") == nil)
            #expect(PeerMessage(sender: "ab", text: longest) == nil)
            #expect(PeerMessage(sender: "a", text: String(repeating: "é", count: 3_999)) == nil)
        }
    }

    /// Anybody with access to the database may notify: what is no message is none.
    @Test func whatIsNoMessageIsLeftOut() throws {
        try withSession { connection in
            try connection.listen(to: [.commits, .messages])
            try connection.sql.executeScript("notify pathmirror_peer, 'nospace'; notify pathmirror_peer")
            try connection.tellPeers(try message("end"))
            #expect(try messages(connection, through: "end").map(\.text) == ["end"])
        }
    }
}
