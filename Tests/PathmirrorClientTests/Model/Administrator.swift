import ClientSupport
import Foundation
import Tree

/// One line of a gateway's log.
struct LogLine: Sendable {
    let seq: Int64
    let operation: String
    let isByAdministrator: Bool
    let changes: [(path: Path, node: Node)]

    /// The changes as a text that two equal writes share.
    var content: String { Self.content(changes) }

    static func content(_ changes: [(path: Path, node: Node)]) -> String {
        changes.map { "\($0.path)=\(PlainText.json($0.node))" }.sorted().joined(separator: " ")
    }
}

/// Reads and writes a gateway's data over REST, above all rules.
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

    /// What is at a place.
    func value(at path: Path) throws -> Node {
        try JSONParser.parse(request("GET", "\(path).json?format=export").body)
    }

    func set(_ path: Path, _ node: Node) throws { try request("PUT", "\(path).json", PlainText.json(node)) }

    func update(_ path: Path, _ values: [(String, Node)]) throws {
        let members = values.map { "\"\($0.0)\":\(PlainText.json($0.1))" }
        try request("PATCH", "\(path).json", "{\(members.joined(separator: ","))}")
    }

    /// The last entry's number.
    func head() throws -> Int64 {
        let head = try request("HEAD", "/.log").head
        guard let match = head.firstMatch(of: #/X-Pathmirror-Seq: (\d+)/#), let seq = Int64(match.1) else {
            throw Failure(description: "the log has no head: \(head)")
        }
        return seq
    }

    /// The entries behind one that concern a place, in order.
    func log(behind seq: Int64, at path: Path) throws -> [LogLine] {
        let body = try request("GET", "/.log?from=\(seq + 1)&follow=false&path=\(path)").body
        return try body.split(separator: "\n").map { line in
            guard let range = line.range(of: "\"changes\":"),
                let said = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any],
                let seq = said["seq"] as? Int64, let operation = said["op"] as? String
            else { throw Failure(description: "a strange entry: \(line)") }
            // The changes are the last member.
            let changes = try JSONParser.parseChanges(Array(line[range.upperBound...].dropLast().utf8))
            let origin = said["origin"] as? [String: Any]
            return LogLine(
                seq: seq, operation: operation, isByAdministrator: origin?["admin"] as? Bool ?? false,
                changes: changes.map { ($0.path, $0.node) })
        }
    }
}
