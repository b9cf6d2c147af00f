import Postgres
import Tree

/// Tables of mirrors do not move: a namespace moves when it has no mirrors.
extension NamespaceMover {
    /// Makes sure that the namespace has no mirrors in the source.
    ///
    /// - Throws: `misplaced`, with the commands that drop the mirrors, move the namespace and apply the mirrors again.
    func refuseMirrors(_ id: Int64) throws {
        let mirrors = try source.connection.mirrors().filter { $0.namespaceID == id }
        guard !mirrors.isEmpty else { return }
        let drops = mirrors.map { "pathmirror mirror drop \($0.name) --ns \(namespace) --yes &&" }
        let definitions = mirrors.map { Self.definition($0) }.joined(separator: ",\n")
        let secret =
            mirrors.contains { Self.hasSecret($0) }
            ? " Replace \(Self.secretTarget) by the target's URL, which holds a password." : ""
        let text = """
            "\(namespace)" has mirrors, whose tables do not move. The following commands drop the mirrors, move the namespace, and apply the mirrors again, which fills their tables anew. A history then begins with what the log has.\(secret)
            \(drops.joined(separator: "\n"))
            pathmirror namespace move \(namespace) --to \(target.name) &&
            pathmirror mirror apply - --ns \(namespace) --yes <<'END'
            [\(definitions)]
            END
            """
        throw LogStoreError.misplaced(text)
    }

    private static let secretTarget = "TARGET"

    private static func hasSecret(_ mirror: MirrorRecord) -> Bool {
        guard let target = mirror.target, !target.hasPrefix("env:") else { return false }
        return (try? PostgresURL(target))?.hasPassword ?? true
    }

    /// The definition as `mirror apply` reads it: the catalog has the target beside it.
    private static func definition(_ mirror: MirrorRecord) -> String {
        let text = String(decoding: mirror.definition, as: UTF8.self)
        guard let target = mirror.target, let brace = text.firstIndex(of: "{") else { return text }
        let value = JSONWriter.encode(.string(hasSecret(mirror) ? secretTarget : target), form: .plain)
        return "{\"target\": \(String(decoding: value, as: UTF8.self)), \(text[text.index(after: brace)...])"
    }
}
