import LogStore
import Postgres
import Runtime
import TestSupport
import Testing

/// Checks that a namespace with mirrors is not moved, and that the refusal explains the remedy.
@Suite struct MovesAndMirrorsTests {
    /// Two databases. The first is the primary database and contains the namespace "test".
    private struct MoveBench {
        let primaryURL: PostgresURL
        let otherURL: PostgresURL
        let primary: LogConnection
        let other: LogConnection
        let namespace: Int64

        static func with(_ body: (MoveBench) throws -> Void) throws {
            try withDatabase { primaryURL in
                try withDatabase { otherURL in
                    let (primary, other) = (try LogConnection(primaryURL), try LogConnection(otherURL))
                    defer {
                        primary.close()
                        other.close()
                    }
                    try primary.addDatabase(
                        DatabaseRecord(
                            name: "b", host: "127.0.0.1", port: "5432", databaseName: "x",
                            installation: try other.installation()))
                    let record = try #require(try primary.namespace(named: "test", creating: true))
                    try body(
                        MoveBench(
                            primaryURL: primaryURL, otherURL: otherURL, primary: primary, other: other,
                            namespace: record.id))
                }
            }
        }

        func add(_ name: String, _ more: String = "", target: String? = nil) throws -> [UInt8] {
            let definition = #"{"name":"\#(name)","path":"/\#(name)/{id}"\#(more)}"#
            return try primary.addMirror(namespace, name: name, definition: Array(definition.utf8), target: target)
        }

        /// Moves the namespace to the other database. Returns the reason of a refusal, or nil after a move.
        func move(_ progress: @escaping (NamespaceMover.Progress) -> Void = { _ in }) throws -> String? {
            var refusal: String?
            // The session of an earlier move may still be closing.
            let isAlone = try eventually {
                refusal = try attempt(progress)
                return refusal?.hasPrefix("Another process is moving") != true
            }
            #expect(isAlone)
            return refusal
        }

        private func attempt(_ progress: @escaping (NamespaceMover.Progress) -> Void) throws -> String? {
            let sessions = try [primaryURL, primaryURL, otherURL].map { try LogConnection($0) }
            defer { for session in sessions { session.close() } }
            let mover = NamespaceMover(
                "test", primary: sessions[0], from: .init(name: DatabaseRecord.primary, connection: sessions[1]),
                to: .init(name: "b", connection: sessions[2]), clock: { Clock.monotonicMilliseconds },
                progress: progress)
            do {
                try mover.run(.move)
                return nil
            } catch LogStoreError.misplaced(let reason) {
                return reason
            }
        }
    }

    private static let reason =
        #""test" has mirrors, whose tables do not move. The following commands drop the mirrors, move the namespace, and apply the mirrors again, which fills their tables again. A history then begins at the oldest entry of the log."#

    @Test func theRefusalHasTheCommands() throws {
        try MoveBench.with { bench in
            let posts = try bench.add("posts", #","filter":"data.val() == 'a'""#)
            let far = try bench.add("far", target: "env:DB")
            #expect(
                try bench.move() == """
                    \(Self.reason)
                    pathmirror mirror drop far --ns test --yes &&
                    pathmirror mirror drop posts --ns test --yes &&
                    pathmirror namespace move test --to b &&
                    pathmirror mirror apply - --ns test --yes <<'END'
                    [{"target": "env:DB", "name":"far","path":"/far/{id}"},
                    {"name":"posts","path":"/posts/{id}","filter":"data.val() == 'a'"}]
                    END
                    """)
            #expect(try bench.primary.moves().isEmpty)
            for mirror in [posts, far] { try bench.primary.removeMirror(bench.namespace, mirror) }
            #expect(try bench.move() == nil)
            #expect(try bench.other.namespace(named: "test") != nil)
        }
    }

    @Test func aPasswordIsNotPrinted() throws {
        try MoveBench.with { bench in
            _ = try bench.add("far", target: "postgresql://me:secret@db2.example/reports")
            let text = try #require(try bench.move())
            #expect(text.contains("Replace TARGET with the target's URL, which holds a password."))
            #expect(text.contains(#"{"target": "TARGET", "name":"far""#) && !text.contains("secret"))
        }
    }

    /// Checks that a mirror that is added while the namespace is copied prevents the move.
    @Test func aMirrorComesDuringTheMove() throws {
        try MoveBench.with { bench in
            var mirror: [UInt8]?
            let refusal = try bench.move { progress in
                if case .copying = progress, mirror == nil { mirror = try? bench.add("posts") }
            }
            #expect(refusal?.hasPrefix(Self.reason) == true)
            #expect(try bench.primary.namespace(named: "test") != nil)
            #expect(try bench.other.namespace(named: "test") == nil)
            try bench.primary.removeMirror(bench.namespace, try #require(mirror))
            #expect(try bench.move() == nil)
            #expect(try bench.other.namespace(named: "test") != nil)
        }
    }
}
