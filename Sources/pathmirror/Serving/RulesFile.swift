import Gateway

/// Security rules from a file.
enum RulesFile {
    static func load(_ path: String) throws -> any AccessRules {
        throw CommandFailure("\(path): rules are not supported yet.")
    }
}
