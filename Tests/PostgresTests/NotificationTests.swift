import Postgres
import Testing

/// Checks that a listening thread receives notifications, and can be woken and stopped.
@Suite struct NotificationTests {
    private func listen(_ channel: String) throws -> PostgresConnection {
        let connection = try TestDatabase.connect()
        try connection.execute("LISTEN \(quotedIdentifier(channel))")
        return connection
    }

    @Test func hearsWhatOthersSend() throws {
        let listener = try listen("hears")
        let sender = try TestDatabase.connect()
        try sender.execute("SELECT pg_notify('hears', $1)", [.text("ü")])
        let found = try listener.waitForNotifications(timeoutMilliseconds: 10_000)
        #expect(found == [PostgresNotification(channel: "hears", payload: "ü", senderPID: sender.backendPID)])
        #expect(try listener.waitForNotifications(timeoutMilliseconds: 20) == [])
    }

    @Test func keepsWhatCameDuringOtherCalls() throws {
        let listener = try listen("keeps")
        let sender = try TestDatabase.connect()
        for number in 1...3 { try sender.execute("SELECT pg_notify('keeps', $1)", [.text("\(number)")]) }
        try listener.execute("SELECT 1")
        var payloads: [String] = []
        while payloads.count < 3 {
            let found = try listener.waitForNotifications(timeoutMilliseconds: 10_000)
            if found.isEmpty { break }
            payloads += found.map(\.payload)
        }
        #expect(payloads == ["1", "2", "3"])
    }

    @Test func aWakeEndsTheWait() throws {
        let listener = try listen("wakes")
        let wake = try WakeHandle()
        wake.wake()
        wake.wake()
        #expect(try listener.waitForNotifications(timeoutMilliseconds: 0, wake: wake) == [])
        let waker = Background { wake.wake() }
        #expect(try listener.waitForNotifications(timeoutMilliseconds: 0, wake: wake) == [])
        try waker.join()
        #expect(try listener.waitForNotifications(timeoutMilliseconds: 20, wake: wake) == [])
        #expect(try listener.execute("SELECT 1").rowCount == 1)
    }

    @Test func abandoningEndsTheWait() throws {
        let listener = try listen("abandoned")
        let handle = listener.cancelHandle
        let stopper = Background { handle.abandon() }
        let error = #expect(throws: PostgresError.self) { try listener.waitForNotifications(timeoutMilliseconds: 0) }
        #expect(error?.isConnectionLost == true)
        try stopper.join()
    }
}
