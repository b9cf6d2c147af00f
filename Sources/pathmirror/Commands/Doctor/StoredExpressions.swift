import Feeds
import LogStore
import Mirrors
import Rules

/// Compiles the expressions that a database stores: rules, filters of mirrors and filters of feeds. An update may have changed the
/// language.
enum StoredExpressions {
    /// A stored definition that this program can't use.
    struct Mistake: Equatable {
        enum Kind: String {
            case rules, mirrors, feeds
        }

        let kind: Kind
        /// The definition that is invalid, and the reason.
        let what: String
        let fix: String
    }

    /// - Throws: if the database can't be read.
    static func mistakes(_ connection: LogConnection) throws -> [Mistake] {
        try rules(connection) + mirrors(connection) + feeds(connection)
    }

    static func findings(_ mistakes: [Mistake]) -> [Finding] {
        if mistakes.isEmpty { return [.ok("expressions.compiled", "all stored rules and filters compile")] }
        return mistakes.map { .problem("expressions.\($0.kind.rawValue)", $0.what, fix: $0.fix) }
    }

    /// Rules are read for one namespace at a time, to save memory.
    private static func rules(_ connection: LogConnection) throws -> [Mistake] {
        var found: [Mistake] = []
        for namespace in try connection.allNamespaces() {
            guard let stored = try connection.currentRules(namespace.id) else { continue }
            do throws(RulesError) {
                _ = try RuleSet(json: stored.source)
            } catch {
                let reason = error.problems.first.map { "\($0)" } ?? "\(error)"
                found.append(
                    Mistake(
                        kind: .rules,
                        what:
                            "the rules of \(namespace.name) do not compile, so only administrators have access: \(reason)",
                        fix: "pathmirror rules set --ns \(namespace.name) FILE"))
            }
        }
        return found
    }

    private static func mirrors(_ connection: LogConnection) throws -> [Mistake] {
        try connection.catalogMirrors().compactMap { mirror in
            mirror.definition.mistake.map {
                Mistake(
                    kind: .mirrors,
                    what:
                        "mirror \(mirror.name) of \(mirror.namespace) can't run, as its definition is invalid: \($0)",
                    fix: "pathmirror mirror apply FILE --ns \(mirror.namespace)")
            }
        }
    }

    private static func feeds(_ connection: LogConnection) throws -> [Mistake] {
        try connection.feeds().compactMap { feed in
            do {
                _ = try FeedDefinition.read(stored: feed.definition, name: feed.name)
                return nil
            } catch {
                return Mistake(
                    kind: .feeds,
                    what: "feed \(feed.name) of \(feed.namespace) can't run, as its definition is invalid: \(error)",
                    fix: "pathmirror feed apply FILE")
            }
        }
    }
}
