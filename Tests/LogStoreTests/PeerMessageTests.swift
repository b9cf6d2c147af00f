import Postgres
import Runtime
import TestSupport
import Testing

@testable import LogStore

/// Tests of messages between gateways through PostgreSQL.
@Suite struct PeerMessageTests {
    /// The messages up to and including the one with this text.
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

    private static let signature = PeerSignature(Secret(Array(repeating: 7, count: 32)))

    private func message(_ text: String, from sender: String = "a", number: Int64 = 1, time: Int64 = 1_000) throws
        -> PeerMessage
    {
        try #require(Self.signature.message(from: sender, number: number, time: time, text))
    }

    @Test func allListenersReceiveIt() throws {
        try withDatabase { url in
            let listeners = try (0..<3).map { _ in try LogConnection(url) }
            let teller = try LogConnection(url)
            defer { for connection in listeners + [teller] { connection.close() } }
            for listener in listeners { try listener.listen(to: [.commits, .messages]) }
            // Spaces and other characters that a path may contain are preserved.
            let texts = ["turn asks 1 /a b", "é \u{1F600}", "  two  spaces ", "end"]
            for text in texts { try teller.notifyPeers(try message(text)) }
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
            for number in 0..<200 { try teller.notifyPeers(try message("\(number)")) }
            #expect(try messages(listener, through: "199").map(\.text) == (0..<200).map(String.init))
        }
    }

    @Test func theSenderReceivesItToo() throws {
        try withSession { connection in
            try connection.listen(to: [.commits, .messages])
            try connection.notifyPeers(try message("self"))
            #expect(try messages(connection, through: "self").map(\.text) == ["self"])
        }
    }

    /// Checks that messages are limited to the 7,999 bytes that PostgreSQL transmits.
    @Test func aMessageIsBounded() throws {
        try withSession { connection in
            try connection.listen(to: [.commits, .messages])
            // The rest is a sender, a number, a time and a code of 32 digits, separated by spaces.
            let longest = String(repeating: "x", count: 7_999 - 1 - 1 - 4 - 32 - 4)
            try connection.notifyPeers(try message(longest))
            #expect(try messages(connection, through: longest).count == 1)
            for (sender, text) in [("a", longest + "x"), ("ab", longest), ("a", String(repeating: "é", count: 3_990))] {
                #expect(Self.signature.message(from: sender, number: 1, time: 1_000, text) == nil)
            }
        }
    }

    /// Checks that malformed notifications are ignored: every user with access to the database may send some.
    @Test func whatIsNoMessageIsLeftOut() throws {
        try withSession { connection in
            try connection.listen(to: [.commits, .messages])
            try connection.sql.executeScript("notify pathmirror_peer, 'nospace'; notify pathmirror_peer")
            try connection.notifyPeers(try message("end"))
            #expect(try messages(connection, through: "end").map(\.text) == ["end"])
        }
    }

    // MARK: Authentication

    /// Checks that gateways of one database share a key. Only the owner and gateways can read it.
    @Test func gatewaysOfADatabaseHaveOneKey() throws {
        try withDatabase { url in
            let connections = try (0..<2).map { _ in try LogConnection(url) }
            defer { for connection in connections { connection.close() } }
            let signatures = try connections.map { try #require(try $0.peerSignature()) }
            let message = try #require(signatures[0].message(from: "a", number: 1, time: 1, "text"))
            #expect(signatures[1].isGenuine(message) && !Self.signature.isGenuine(message))
            let role = "only_connects_\(UInt32.random(in: 0...UInt32.max))"
            try connections[0].sql.executeScript("create role \(role)")
            defer { try? connections[0].sql.executeScript("reset role; drop owned by \(role); drop role \(role)") }
            try connections[0].sql.executeScript("set role \(role)")
            #expect(throws: PostgresError.self) {
                try connections[0].sql.execute("select key from pathmirror.gateway_key")
            }
            func readsKey() throws -> Bool { try connections[0].peerSignature()?.isGenuine(message) == true }
            #expect(try !readsKey(), "without the schema")
            try connections[0].sql.executeScript(
                "reset role; grant usage on schema pathmirror to \(role); set role \(role)")
            #expect(try !readsKey(), "without the table")
            try connections[0].sql.executeScript(
                "reset role; grant select on pathmirror.gateway_key to \(role); set role \(role)")
            #expect(try readsKey())
        }
    }

    @Test func changedMessagesAreNotGenuine() throws {
        let message = try message("some text 0=1", from: "abc", number: 12, time: 3_456)
        let copy = try #require(PeerMessage(payload: "\(self.payload(of: message))"))
        #expect(copy == message && Self.signature.isGenuine(copy))
        let parts = payload(of: message).split(separator: " ", maxSplits: 4).map(String.init)
        for (index, other) in ["abd", "13", "3457", String(repeating: "0", count: 32), "some text 0=2"]
            .enumerated()
        {
            var changed = parts
            changed[index] = other
            let forged = try #require(PeerMessage(payload: changed.joined(separator: " ")))
            #expect(!Self.signature.isGenuine(forged), "\(changed)")
        }
    }

    private func payload(of message: PeerMessage) -> String { message.payload }

    @Test func noMessageIsAcceptedTwice() throws {
        var history = PeerHistory()
        let now: Int64 = 1_000_000
        func admits(_ sender: String, _ number: Int64, sent: Int64 = now) throws -> Bool {
            history.admits(try message("x", from: sender, number: number, time: sent), at: now)
        }
        #expect(try admits("a", 1))
        #expect(try !admits("a", 1))
        #expect(try admits("a", 5))
        #expect(try !admits("a", 4), "it comes after a later one")
        #expect(try admits("b", 1))
        let tolerance = PeerHistory.toleranceMilliseconds
        #expect(try admits("c", 1, sent: now - tolerance) && admits("d", 1, sent: now + tolerance))
        #expect(try !admits("e", 1, sent: now - tolerance - 1) && !admits("f", 1, sent: now + tolerance + 1))
    }

    /// Checks that the number of known senders is bounded: old senders are removed, and their messages are refused by
    /// their time.
    @Test func sendersAreBounded() throws {
        var history = PeerHistory()
        func admits(_ sender: String, at now: Int64) throws -> Bool {
            history.admits(try message("x", from: sender, number: 1, time: now), at: now)
        }
        for number in 0..<PeerHistory.mostSenders { #expect(try admits("s\(number)", at: 0)) }
        #expect(try !admits("one more", at: 0))
        #expect(try !admits("one more", at: 2 * PeerHistory.toleranceMilliseconds))
        #expect(try admits("one more", at: 2 * PeerHistory.toleranceMilliseconds + 1))
    }
}
