import Engine
import Rules

/// Security rules from a file.
enum RulesFile {
    static func load(_ path: String) throws -> RulesVersion {
        let text = try Files.read(path)
        do throws(RulesError) {
            return RulesVersion(seq: 0, set: try RuleSet(json: text))
        } catch {
            throw CommandFailure("\(path) is not a set of rules:\n\(error)")
        }
    }
}
