import LogStore
import Postgres
import Retention
import Runtime
import TestSupport
import Testing
import Tree

/// Checks that every gateway forgets names of writes, however rarely it shortens logs.
@Suite struct ForgettingTests {
    @Test(arguments: [0, 86_400_000] as [Milliseconds])
    func namesAreForgottenByGatewaysThatShortenNoLogs(interval: Milliseconds) throws {
        try withDatabase { url in
            let connection = try LogConnection(url)
            defer { connection.close() }
            let namespace = try connection.make().id
            for (writer, age) in [("writer-1", 31), ("writer-2", 29)] {
                try connection.sql.execute(
                    """
                    insert into pathmirror.named_write (namespace_id, writer, done, seq, used_on)
                    values ($1, $2, '{[1,1]}', 1, current_date - $3::int)
                    """, [.int8(namespace), .text(writer), .int4(Int32(age))])
            }
            // A concurrent `retention run` does not prevent names from being forgotten.
            #expect(try connection.takeRetentionTurn())
            var settings = RetentionSettings()
            settings.intervalMilliseconds = interval
            settings.forgettingMilliseconds = 10
            let service = RetentionService(
                url: url, settings: settings, connectionSettings: LogConnection.Settings(),
                logger: Logger(level: .error, descriptor: -1))
            defer { service.stop() }
            let isForgotten = try eventually {
                try count(connection, "select count(*) from pathmirror.named_write where writer = 'writer-1'") == 0
            }
            #expect(isForgotten)
            #expect(try count(connection, "select count(*) from pathmirror.named_write") == 1)
        }
    }

    /// Checks that only one of several gateways forgets names at a time.
    @Test func oneForgetsAtATime() throws {
        try withDatabase { url in
            let (one, two) = (try LogConnection(url), try LogConnection(url))
            defer { two.close() }
            #expect(try one.takeForgettingTurn() && !two.takeForgettingTurn())
            one.close()
            #expect(try eventually { try two.takeForgettingTurn() })
        }
    }
}
