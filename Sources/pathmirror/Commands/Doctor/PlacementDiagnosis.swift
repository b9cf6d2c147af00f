import LogStore

/// The placement of namespaces in the primary database, and the namespaces found in each database.
struct PlacementFacts {
    /// The database of each namespace that is placed outside the primary database.
    var placed: [String: String] = [:]
    var inPrimary: Set<String> = []
    /// The namespaces of each other database that answered.
    var present: [String: Set<String>] = [:]
    /// The moves recorded in the primary database.
    var moves: [MoveRecord] = []
    /// The namespaces that no gateway serves, for each database that answered, including the primary database.
    var hidden: [String: HiddenNamespaces] = [:]

    /// Returns whether a database other than the primary database did not answer.
    func mayBeGone(_ database: String) -> Bool { database != DatabaseRecord.primary && present[database] == nil }

    /// Returns whether a database answered, and does not have a namespace.
    func lacks(_ namespace: String, at database: String) -> Bool {
        if database == DatabaseRecord.primary { return !inPrimary.contains(namespace) }
        return present[database].map { !$0.contains(namespace) } ?? false
    }
}

/// Judges whether namespaces are in the databases recorded for them. Pure.
enum PlacementDiagnosis {
    static func findings(_ facts: PlacementFacts) -> [Finding] {
        var found = moves(facts)
        // Namespaces that are being moved may be in either database.
        let moving = Set(facts.moves.map(\.namespace))
        var facts = facts
        facts.placed = facts.placed.filter { !moving.contains($0.key) }
        facts.inPrimary.subtract(moving)
        facts.present = facts.present.mapValues { $0.subtracting(moving) }
        let twice = facts.placed.keys.filter(facts.inPrimary.contains).sorted()
        if !twice.isEmpty {
            found.append(
                .problem(
                    "placement.home",
                    "namespaces that were placed elsewhere are in the primary database as well, where no gateway serves them: \(list(twice))",
                    fix:
                        "compare them ('pathmirror export --in home --ns NAME'), and remove the wrong one by SQL as its owner"
                ))
        }
        for (name, present) in facts.present.sorted(by: { $0.key < $1.key }) {
            found += findings(name, present, facts).map { $0.of(name) }
        }
        if found.isEmpty {
            found.append(
                .ok(
                    "placement.rows",
                    "all \(facts.placed.count) placed namespaces are in their databases, as far as those could be read"
                ))
        }
        return found
    }

    /// Findings about moves in progress, and about the leftovers of interrupted ones.
    private static func moves(_ facts: PlacementFacts) -> [Finding] {
        var found = facts.moves.map { move in
            if move.hasLeft {
                return Finding.warning(
                    "placement.moving",
                    "\(move.namespace) has moved from \(move.source) to \(move.target), and its remaining rows are not removed yet",
                    fix:
                        "if no such command is running, 'pathmirror namespace move \(move.namespace)' completes the move"
                )
            }
            let abandoning =
                facts.mayBeGone(move.target)
                ? "; if \(move.target) is permanently lost, 'pathmirror namespace move \(move.namespace) --abort --abandon' abandons the move"
                : ""
            if facts.lacks(move.namespace, at: move.source) {
                return Finding.problem(
                    "placement.moving",
                    "\(move.namespace) has left \(move.source) and is not registered in \(move.target) yet: no gateway serves it",
                    fix:
                        "if no such command is running, 'pathmirror namespace move \(move.namespace)' completes the move\(abandoning)"
                )
            }
            return Finding.warning(
                "placement.moving",
                "\(move.namespace) is being moved from \(move.source) to \(move.target) since \(move.beganAt)",
                fix:
                    "if no such command is running, 'pathmirror namespace move \(move.namespace)' resumes the move, and --abort removes the copy\(abandoning)"
            )
        }
        for (name, hidden) in facts.hidden.sorted(by: { $0.key < $1.key }) {
            func add(_ finding: Finding) { found.append(name == DatabaseRecord.primary ? finding : finding.of(name)) }
            let known = facts.moves.filter { $0.target == name }.map(\.namespace)
            let left = hidden.copies.filter { !known.contains($0) }
            if !left.isEmpty {
                add(
                    .warning(
                        "placement.copies",
                        "inactive copies of moves that the primary database does not know: \(list(left))",
                        fix:
                            "the primary database was restored from a backup: see docs/guides/placement.md#when-a-database-went-back-to-a-backup; 'pathmirror namespace move NAME --to \(name)' resumes the move, and --abort removes the copy"
                    ))
            }
            if !hidden.aside.isEmpty {
                add(
                    .note(
                        "placement.aside", "namespaces that were set aside: \(list(hidden.aside))",
                        fix: "remove them by SQL as their owner once they are not needed any more"))
            }
        }
        return found
    }

    /// Findings about one database.
    private static func findings(_ name: String, _ present: Set<String>, _ facts: PlacementFacts) -> [Finding] {
        var found: [Finding] = []
        let missing = facts.placed.filter { $0.value == name && !present.contains($0.key) }.keys.sorted()
        if !missing.isEmpty {
            found.append(
                .problem(
                    "placement.missing",
                    "namespaces are placed in this database, but do not exist in it: \(list(missing))",
                    fix:
                        "check first whether they were moved before a database was restored from a backup (docs/guides/placement.md): then another database has them, or a copy; otherwise pathmirror namespace create NAME --in \(name), or pathmirror namespace rm NAME; or restore the database"
                ))
        }
        let strangers = present.filter { facts.placed[$0] != name }
        let hidden = strangers.filter { facts.inPrimary.contains($0) || facts.placed[$0] != nil }.sorted()
        if !hidden.isEmpty {
            found.append(
                .warning(
                    "placement.hidden",
                    "namespaces in this database are served from another database, which has namespaces of the same names: \(list(hidden))",
                    fix:
                        "check which one is right: the primary database may have been restored to a state before they were placed"
                ))
        }
        let unplaced = strangers.subtracting(hidden).sorted()
        if !unplaced.isEmpty {
            found.append(
                .note(
                    "placement.unplaced",
                    "namespaces in this database are not placed there, and so are not served: \(list(unplaced))",
                    fix: "pathmirror namespace create NAME --in \(name) makes gateways serve them"))
        }
        return found
    }

    /// Lowers a finding about another database from problem to warning, if it is unreachable: gateways still serve the namespaces of the
    /// other databases.
    static func ofAnother(_ finding: Finding) -> Finding {
        guard finding.check == DatabaseVisit.reachable, finding.level == .problem else { return finding }
        return .warning(
            finding.check, finding.what,
            fix:
                "\(finding.fix ?? "check that it runs"); if it is permanently lost, see docs/guides/placement.md#when-a-database-is-gone-for-good"
        )
    }

    static func anotherDatabase(_ record: DatabaseRecord) -> Finding {
        .problem(
            "placement.installation", "\(record.address) has another database than the one that was added",
            fix: "register the new address: pathmirror database add \(record.name) URL")
    }

    private static func list(_ names: [String]) -> String { DatabaseDiagnosis.list(names) }
}
