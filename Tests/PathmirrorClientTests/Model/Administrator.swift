import ClientSupport
import Foundation
import Tree

/// One line of a gateway's log.
struct LogLine: Sendable {
    let seq: Int64
    let operation: String
    let isByAdministrator: Bool
    let changes: [(path: Path, node: Node)]

    /// The changes as a text that is the same for equal writes.
    var content: String { Self.content(changes) }

    static func content(_ changes: [(path: Path, node: Node)]) -> String {
        changes.map { "\($0.path)=\(PlainText.json($0.node))" }.sorted().joined(separator: " ")
    }
}

/// Reads and writes a gateway's data over REST, bypassing the rules.
struct Administrator: Sendable {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    let port: UInt16

    @discardableResult
    func request(_ method: String, _ target: String, _ body: String = "") throws -> (head: String, body: String) {
        let socket = try LocalSocket.connect(port: port)
        defer { close(socket) }
        let text = """
            \(method) \(target.replacing(" ", with: "%20")) HTTP/1.1\r
            Host: localhost\r
            Authorization: Bearer owner\r
            Connection: close\r
            Content-Length: \(body.utf8.count)\r
            \r
            \(body)
            """
        guard LocalSocket.send(Array(text.utf8)[...], to: socket) else {
            throw Failure(description: "the gateway is gone")
        }
        var bytes: [UInt8] = []
        while let more = LocalSocket.receive(from: socket) { bytes += more }
        let answer = String(decoding: bytes, as: UTF8.self)
        guard let end = answer.range(of: "\r\n\r\n") else { throw Failure(description: "no answer to \(target)") }
        let head = String(answer[..<end.lowerBound])
        guard head.hasPrefix("HTTP/1.1 2") else { throw Failure(description: "\(method) \(target): \(answer)") }
        return (head, String(answer[end.upperBound...]))
    }

    /// Returns the value at a path.
    func value(at path: Path) throws -> Node {
        try JSONParser.parse(request("GET", "\(path).json?format=export").body)
    }

    func set(_ path: Path, _ node: Node) throws { try request("PUT", "\(path).json", PlainText.json(node)) }

    func update(_ path: Path, _ values: [(String, Node)]) throws {
        let members = values.map { "\"\($0.0)\":\(PlainText.json($0.1))" }
        try request("PATCH", "\(path).json", "{\(members.joined(separator: ","))}")
    }

    /// Returns the last entry's seq.
    func head() throws -> Int64 {
        let head = try request("HEAD", "/.log").head
        guard let match = head.firstMatch(of: #/X-Pathmirror-Seq: (\d+)/#), let seq = Int64(match.1) else {
            throw Failure(description: "the log has no head: \(head)")
        }
        return seq
    }

    /// Returns the entries after `seq` that concern a path, in order.
    func log(after seq: Int64, at path: Path) throws -> [LogLine] {
        var lines: [LogLine] = []
        var offset = String(format: "%019ld", Int(seq)) + "_0000000000_0000000000_"
        while true {
            let (head, body) = try request("GET", "/.log?offset=\(offset)&path=\(path)")
            lines += try Self.lines(body)
            if head.contains("Stream-Up-To-Date: true") { return lines }
            guard let match = head.firstMatch(of: #/Stream-Next-Offset: (\S+)/#) else {
                throw Failure(description: "the log has no next offset: \(head)")
            }
            offset = String(match.1)
        }
    }

    private static func lines(_ body: String) throws -> [LogLine] {
        guard let found = RawJSON(Array(body.utf8)).elements else {
            throw Failure(description: "no lines of the log: \(body)")
        }
        return try found.map { line in
            var members: [String: RawJSON] = [:]
            for (key, value) in line.members ?? [] { members[key] = value }
            guard let seq = members["seq"]?.integer, let operation = members["op"]?.string,
                let given = members["changes"]
            else { throw Failure(description: "a strange entry: \(String(decoding: line.bytes, as: UTF8.self))") }
            let origin = members["origin"]?.members?.first { $0.key == "admin" }?.value
            return LogLine(
                seq: seq, operation: operation, isByAdministrator: origin?.bool ?? false,
                changes: try JSONParser.parseChanges(given.text).map { ($0.path, $0.node) })
        }
    }
}
