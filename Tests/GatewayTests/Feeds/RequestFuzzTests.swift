import Engine
import Feeds
import HTTPServer
import LogStore
import TestSupport
import Testing
import Tree
import Wire

@testable import Gateway

/// Checks that mutated inputs of all parsers of feed and log requests give a value within its bounds or a refusal with
/// a message. These parsers belong to the gateway, so `make campaign NAME=fuzz` cannot reach them.
@Suite struct RequestFuzzTests {
    private static let pieces: [[UInt8]] = [
        "{", "}", "[", "]", "\"", ":", ",", "null", "true", "-1", "1e9", "1.0", "0", "1001", "9223372036854775808",
        "\\u0000", "\\ud800", "é", "\"ids\":", "\"max\":", "\"wait\":", "\"wait_ms\":", "\"20s\"", "\"consumer\":",
        "\"delay\":", "\"delay_ms\":",
        "\"reason\":", "\"seq\":", "\"time\":", "\"to\":", "\"key\":", "\"all\":", "\"max_held\":", "\"resume\":", "\n",
        "default:1:0", "&", "=", "%", "%2", "%C3%A9", "%FF", "path=", "offset=", "live=", "cursor=",
        "now", "-1", "oldest", "long-poll", "sse", "/", "..", ".feeds", "pull", "dead", "retry", "_", "-",
    ].map { Array($0.utf8) }

    private func mutate(_ bytes: [UInt8], _ random: inout SeededGenerator) -> [UInt8] {
        var bytes = bytes
        for _ in 0..<random.below(5) {
            let offset = random.below(bytes.count + 1)
            switch random.below(6) {
            case 0 where offset < bytes.count: bytes[offset] = UInt8(random.below(256))
            case 1 where offset < bytes.count:
                bytes.removeSubrange(offset..<min(bytes.count, offset + 1 + random.below(9)))
            case 2: bytes.insert(contentsOf: random.pick(Self.pieces), at: offset)
            case 3 where random.oneIn(4): bytes.removeSubrange(offset...)
            case 4 where offset < bytes.count:
                let copy = bytes[offset..<min(bytes.count, offset + 1 + random.below(20))]
                bytes.insert(contentsOf: Array(copy), at: random.below(bytes.count))
            default: bytes.insert(contentsOf: random.pick(Self.pieces), at: offset)
            }
        }
        return bytes
    }

    /// Returns the parsed value, or nil if the parser refuses the input with a message of acceptable length.
    private func read<Value>(_ bytes: [UInt8], _ body: () throws -> Value) throws -> Value? {
        do {
            return try body()
        } catch let error as RESTError {
            let input = String(decoding: bytes, as: UTF8.self)
            #expect((400...405).contains(error.status) && !error.message.isEmpty, "\(input)")
            #expect(error.message.utf8.count < 2_000, "\(input)")
            return nil
        }
    }

    private static let bodies = [
        "", "{}", #"{"max":7,"wait":"20s","consumer":"c","max_held":5,"resume":true,"after":"default:1:0"}"#,
        #"{"ids":["default:1:0","default:2:s0"],"consumer":"c"}"#,
        #"{"ids":["default:1:0"],"delay":"5ms","reason":"no"}"#, #"{"ids":["default:1:0"],"delay_ms":5}"#,
        #"{"seq":42}"#, #"{"time":"2026-11-22T10:00:00Z"}"#, #"{"to":"snapshot"}"#, #"{"key":"a/b"}"#, #"{"all":true}"#,
    ]

    @Test(arguments: [1, 2, 3, 4] as [UInt64]) func bodies(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var understood = 0
        for _ in 0..<5_000 {
            let bytes = mutate(Array(random.pick(Self.bodies).utf8), &random)
            let what = Comment(rawValue: String(decoding: bytes, as: UTF8.self))
            let isForwarded = random.oneIn(2)
            if let pull = try read(bytes, { try FeedBodies.pull(bytes, isForwarded: isForwarded) }) {
                understood += 1
                #expect(try FeedBodies.pull(pull.forwarded, isForwarded: true) == pull, what)
                #expect((0...1_000).contains(pull.most) && (0...60_000).contains(pull.waitMilliseconds), what)
                #expect(pull.consumer.utf8.count <= 200 && (1...100_000).contains(pull.mostHeld ?? 1), what)
            }
            for verb in [FeedBodies.Verb.ack, .nack, .extend] {
                guard
                    let settled = try read(bytes, { try FeedBodies.settlement(verb, bytes, isForwarded: isForwarded) })
                else { continue }
                understood += 1
                #expect(try FeedBodies.settlement(verb, settled.forwarded, isForwarded: true) == settled, what)
                #expect(settled.ids.count <= 1_000 && settled.consumer?.utf8.count ?? 0 <= 200, what)
                switch settled.settlement {
                case .acknowledge: #expect(verb == .ack, what)
                case .reject(let delay, let reason):
                    #expect(verb == .nack && (0...43_200_000).contains(delay ?? 0) && !reason.contains("\0"), what)
                case .extend(let delay): #expect(verb == .extend && (0...43_200_000).contains(delay), what)
                }
            }
            if case .seq(let seq) = try read(bytes, { try FeedBodies.seek(bytes) }) { #expect(seq >= 0, what) }
            // Only an explicit `true` selects all messages.
            if case .all = try read(bytes, { try FeedBodies.deadLetters(bytes) }) {
                #expect(String(decoding: bytes, as: UTF8.self).contains("true"), what)
            }
        }
        #expect(understood > 500)
    }

    private static let paths = [
        "/.feeds", "/.feeds/a", "/.feeds/a/pull", "/.feeds/a/ack", "/.feeds/a/dead", "/.feeds/a/dead/retry",
        "/.feeds/a/stream", "/.feeds/a/status",
    ]

    @Test(arguments: [11, 12] as [UInt64]) func paths(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let methods: [HTTPMethod] = [.get, .head, .put, .post, .delete, .patch, .options, .other("LINK")]
        for _ in 0..<10_000 {
            let bytes = mutate(Array(random.pick(Self.paths).utf8), &random)
            let method = random.pick(methods)
            guard let path = try read(bytes, { try FeedPath(method, bytes[...]) }) else { continue }
            // Requests that need no administrator neither define nor list feeds.
            if !path.needsAdministrator {
                #expect(method != .put && method != .delete && path.name != nil)
            }
            let query = FeedQuery(bytes[...])
            _ = try read(bytes) { try query.number("max", 1...10) }
        }
    }

    private static let queries = [
        "", "path=/orders/o1&offset=-1", "offset=-1", "offset=now&live=long-poll",
        "offset=\(LogPositionText.offset(LogLinePosition(LogPosition(seq: 7, batch: [1, 2, 3]))))&live=sse&cursor=12",
        "path=a%2Fb&ns=x",
    ]

    @Test(arguments: [21, 22, 23] as [UInt64]) func logQueries(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var understood = 0
        for _ in 0..<8_000 {
            let bytes = mutate(Array(random.pick(Self.queries).utf8), &random)
            let what = Comment(rawValue: String(decoding: bytes, as: UTF8.self))
            guard let asked = try read(bytes, { try LogParameters(bytes[...]) }) else { continue }
            understood += 1
            #expect(asked.path.map { $0.depth <= KeyRules.maxDepth } ?? true, what)
            guard case .after(let position) = asked.start else { continue }
            #expect(position.seq >= 0, what)
            // The start position can be written as text again.
            #expect(LogPositionText.position(offset: LogPositionText.offset(position)) == position, what)
        }
        #expect(understood > 500)
    }
}
