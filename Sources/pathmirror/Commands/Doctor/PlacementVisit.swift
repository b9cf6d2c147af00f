import LogStore
import Postgres

/// Examines each database recorded in the primary database, and whether namespaces are in their recorded databases.
struct PlacementVisit {
    private let primary: DatabaseVisit
    private let arguments: ParsedArguments

    init(_ primary: DatabaseVisit, _ arguments: ParsedArguments) {
        self.primary = primary
        self.arguments = arguments
    }

    /// Empty if the primary database names no other database, or does not answer (another check reports that).
    func findings() -> [Finding] {
        guard let (records, placed) = try? askPrimary(), !records.isEmpty else { return [] }
        var found: [Finding] = []
        var facts = placed
        for record in records {
            let (findings, namespaces, hidden) = look(at: record)
            found += findings.map { $0.of(record.name) }
            facts.present[record.name] = namespaces
            facts.hidden[record.name] = hidden
        }
        // A move that has ended meanwhile has removed the namespace from its old database.
        if !facts.moves.isEmpty, let left = try? moves() { facts.moves = facts.moves.filter(left.contains) }
        return found + PlacementDiagnosis.findings(facts)
    }

    private func moves() throws -> [MoveRecord] {
        let connection = try primary.connect()
        defer { connection.close() }
        return try connection.moves()
    }

    private func askPrimary() throws -> ([DatabaseRecord], PlacementFacts) {
        let connection = try primary.connect()
        defer { connection.close() }
        try connection.checkSchema()
        let records = try connection.databases()
        var facts = PlacementFacts()
        for (namespace, database) in try connection.placements(since: -1) { facts.placed[namespace] = database }
        facts.inPrimary = Set(try connection.allNamespaces().map(\.name))
        facts.moves = try connection.moves()
        facts.hidden[DatabaseRecord.primary] = try connection.hiddenNamespaces()
        return (records, facts)
    }

    /// Returns the findings of one database, its namespaces, and the namespaces that no gateway serves there. The latter two are nil if
    /// unknown.
    private func look(at record: DatabaseRecord) -> ([Finding], Set<String>?, HiddenNamespaces?) {
        let url: PostgresURL
        do {
            url = try DatabaseLogins(arguments).url(of: record, primary: primary.url)
        } catch {
            let fix = "correct the file of --database-credentials"
            return ([.problem("placement.login", "the logins can't be read: \(error)", fix: fix)], nil, nil)
        }
        let visit = DatabaseVisit(primary, at: url)
        let findings = visit.findings().map(PlacementDiagnosis.ofAnother)
        guard let connection = try? visit.connect() else { return (findings, nil, nil) }
        defer { connection.close() }
        guard let installation = try? connection.installation() else { return (findings, nil, nil) }
        guard installation == record.installation else {
            return (findings + [PlacementDiagnosis.anotherDatabase(record)], nil, nil)
        }
        guard let namespaces = try? connection.allNamespaces() else { return (findings, nil, nil) }
        return (findings, Set(namespaces.map(\.name)), try? connection.hiddenNamespaces())
    }
}
