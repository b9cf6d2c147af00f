import Tree
import Wire

@testable import ClientCore

/// Texts for the log and for failures.
extension SyncModel {
    static func text(_ node: Node) -> String {
        String(decoding: JSONWriter.encode(node, form: .export), as: UTF8.self)
    }

    static func text(_ content: PendingWrite.Content) -> String {
        switch content {
        case .overwrite(let node): text(node)
        case .merge(let changes): changes.map { "\($0.path)=\(text($0.value))" }.joined(separator: " ")
        }
    }

    static func text(_ spec: QuerySpec) -> String {
        let query = spec.query
        let bounds = [("start", query.start), ("end", query.end)].compactMap { name, bound in
            bound.map { "\(name)\($0.isInclusive ? "At" : "") \(text($0.value.node))" }
        }
        return "\(spec.path) by \(query.index) \(bounds) \(query.limit.map { "\($0)" } ?? "")"
    }

    /// The situation after a failed round.
    var situation: [String] {
        let sent = received.map {
            "sent of \(Self.text($0.spec)): \($0.node.map { Self.text($0) } ?? "nothing")"
        }
        let writes = client.writes.records.sorted { $0.key < $1.key }.map { id, record in
            "write \(id.rawValue)\(record.isVisible ? "" : ", not shown"): \(Self.text(.merge(record.changes)))"
        }
        return sent + writes
    }
}
