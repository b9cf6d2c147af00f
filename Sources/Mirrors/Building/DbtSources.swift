import LogStore
import Tree

/// Mirrors as a `sources.yml` of a dbt project: tables, columns, descriptions, tests of the keys, freshness.
///
/// Texts are written as JSON strings, which YAML accepts. Sequences that dbt would read as templates are escaped.
public struct DbtSources: Sendable {
    private let mirrors: [CatalogMirror]

    /// - Parameter mirrors: mirrors of one database. Each of their schemas becomes a source with its name.
    public init(_ mirrors: [CatalogMirror]) { self.mirrors = mirrors }

    /// The file's content. Ends with a line feed.
    public var yaml: String {
        var lines = ["version: 2", "", "sources:"]
        let bySchema = Dictionary(grouping: mirrors, by: \.definition.schema)
        var sources: Set<String> = []
        for (schema, mirrors) in bySchema.sorted(by: { $0.key < $1.key }) {
            lines += [
                "  - name: \(text(Self.resourceName(schema, &sources)))",
                "    schema: \(text(schema))",
                "    description: \(text("Tables that Pathmirror maintains. Each table follows a path of the tree within milliseconds."))",
                "    quoting: {schema: true, identifier: true}",
                "    tables:",
            ]
            var tables: Set<String> = []
            for mirror in mirrors.sorted(by: { $0.definition.table < $1.definition.table }) {
                lines += self.lines(mirror, named: Self.resourceName(mirror.definition.table, &tables))
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    /// Returns a name that dbt accepts: letters, digits and underscores, and unique among `taken`. Adds it to `taken`.
    private static func resourceName(_ name: String, _ taken: inout Set<String>) -> String {
        var plain = ""
        for scalar in name.unicodeScalars {
            plain.unicodeScalars.append(scalar.properties.isAlphabetic || ("0"..."9").contains(scalar) ? scalar : "_")
        }
        var unique = plain
        var count = 1
        while !taken.insert(unique).inserted {
            count += 1
            unique = "\(plain)_\(count)"
        }
        return unique
    }

    private func lines(_ mirror: CatalogMirror, named name: String) -> [String] {
        let definition = mirror.definition
        var lines = ["      - name: \(text(name))"]
        if name != definition.table { lines.append("        identifier: \(text(definition.table))") }
        lines += [
            "        description: \(text(description(mirror)))",
            "        config:",
            "          freshness: {warn_after: {count: 15, period: minute}, error_after: {count: 1, period: day}}",
        ]
        if mirror.target == nil {
            // The mirror's lag measures freshness better than the time of the last write.
            let query = MirrorFreshness.query(namespace: mirror.namespace, mirror: mirror.name)
            lines.append("          loaded_at_query: \(text(query))")
        } else {
            lines.append("          loaded_at_field: \(definition.timeColumn)")
        }
        lines.append("        columns:")
        for column in MirrorTable(definition, name: definition.table, label: "").columns {
            let isUnique = column.isKey && definition.keys.count == 1 && !definition.isHistory
            lines += self.lines(column, isUnique: isUnique)
        }
        return lines
    }

    private func description(_ mirror: CatalogMirror) -> String {
        let rows =
            switch mirror.definition.keeps {
            case nil: "The records"
            case .latest: "The records, including removed records (_deleted_at),"
            case .changes: "The changes of the records"
            }
        let records = "\(rows) at \(mirror.definition.pattern) of the namespace \(mirror.namespace)"
        let whole = "\(records): the mirror \(mirror.name)."
        return mirror.definition.comment.map { "\($0)\n\n\(whole)" } ?? whole
    }

    private func lines(_ column: MirrorTable.Column, isUnique: Bool) -> [String] {
        var lines = ["          - name: \(text(column.name))", "            data_type: \(text(column.dbtType))"]
        if let comment = column.comment { lines.append("            description: \(text(comment))") }
        if !Self.isPlain(column.name) { lines.append("            quote: true") }
        // dbt's tests quote such a name without escaping it.
        if column.name.unicodeScalars.contains("\"") { return lines }
        let tests = (column.isNotNull ? ["not_null"] : []) + (isUnique ? ["unique"] : [])
        if !tests.isEmpty { lines.append("            data_tests: [\(tests.joined(separator: ", "))]") }
        return lines
    }

    /// Whether a name means the same with and without quotes.
    private static func isPlain(_ name: String) -> Bool {
        name.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"): true
            default: false
            }
        } && name.utf8.first.map { !(UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } ?? false
    }

    /// Returns a text as a YAML string that dbt's templates leave unchanged.
    private func text(_ text: String) -> String {
        var safe = ""
        var before: Unicode.Scalar?
        for scalar in text.unicodeScalars {
            if before == "{", ["{", "%", "#"].contains(scalar) {
                safe.unicodeScalars.removeLast()
                safe += "{{ '{\(scalar)' }}"
                before = nil
                continue
            }
            safe.unicodeScalars.append(scalar)
            before = scalar
        }
        var writer = JSONWriter(form: .plain)
        writer.writeString(safe)
        var quoted = ""
        for scalar in String(decoding: writer.bytes, as: UTF8.self).unicodeScalars {
            if Self.isEscaped(scalar) {
                let digits = String(scalar.value, radix: 16)
                quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            } else {
                quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted
    }

    /// Whether JSON permits the character unescaped, but YAML treats it as the end of a line or rejects it.
    private static func isEscaped(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x7F...0x9F, 0x2028...0x2029, 0xFEFF, 0xFFFE...0xFFFF: true
        default: false
        }
    }
}

extension MirrorTable.Column {
    /// The SQL type without its collation.
    fileprivate var dbtType: String { sqlType.hasPrefix("text collate") ? "text" : sqlType }
}

extension MirrorDefinition {
    /// The column with the time at which a row was written.
    fileprivate var timeColumn: String {
        switch keeps {
        case .changes: "_at"
        case nil, .latest: Self.updatedAtColumn
        }
    }
}
