import Engine
import LogStore
import Runtime
import TestSupport
import Testing

@testable import Gateway

/// Tests of realtime clients of a namespace that follows an upstream.
@Suite struct SessionFollowingTests {
    private static let text =
        #""The namespace follows an upstream database and is read-only. Write to the upstream.""#
    private static let rules = #"{"rules":{".read":true,"open":{".write":true}}}"#

    private func follow(_ bench: SessionBench) throws {
        let connection = try LogConnection(bench.url)
        defer { connection.close() }
        _ = try connection.startFollowing("test")
    }

    @Test func writesAreRefused() throws {
        try withBench(rules: Self.rules) { bench in
            let client = try bench.connect()
            try client.ask("p", #"{"p":"/open/a","d":1}"#, gives: "ok")
            try follow(bench)
            try client.ask("p", #"{"p":"/open/a","d":2}"#, gives: "read_only", Self.text)
            try client.ask("p", #"{"p":"/open/a","d":null}"#, gives: "read_only", Self.text)
            try client.ask("m", #"{"p":"/open","d":{"a":2,"b":3}}"#, gives: "read_only", Self.text)
            try client.ask("p", #"{"p":"/open/a","d":2,"h":"wrong"}"#, gives: "read_only", Self.text)
            try client.ask("p", #"{"p":"/closed","d":2}"#, gives: "permission_denied", ScriptedClient.denied)
            try client.ask("g", #"{"p":"/open/a"}"#, gives: "ok", "1")
            #expect(try bench.value("open") == #"{"a":1}"#)
        }
    }

    /// A session's operations are refused, or dropped at its end if it had them before. A cancel is allowed.
    @Test func operationsAreRefused() throws {
        try withBench(rules: Self.rules) { bench in
            let client = try bench.connect()
            try client.ask("o", #"{"p":"/open/gone","d":1}"#, gives: "ok")
            #expect(try bench.savedSessions() == 1)
            try follow(bench)
            try client.ask("p", #"{"p":"/open/a","d":2}"#, gives: "read_only", Self.text)
            #expect(bench.namespace.isFollowing)
            let other = try bench.connect()
            try other.ask("o", #"{"p":"/open/b","d":1}"#, gives: "read_only", Self.text)
            try other.ask("om", #"{"p":"/open","d":{"b":1}}"#, gives: "read_only", Self.text)
            try other.ask("o", #"{"p":"/closed","d":1}"#, gives: "permission_denied", ScriptedClient.denied)
            try other.ask("oc", #"{"p":"/open"}"#, gives: "ok")
            #expect(try bench.savedSessions() == 1)
            let seq = bench.namespace.snapshot.seq
            try client.disconnect()
            #expect(eventually { (try? bench.savedSessions()) == 0 })
            #expect(try bench.value("open") == "null" && bench.namespace.snapshot.seq == seq)
        }
    }
}
