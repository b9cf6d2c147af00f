/// Environment variables with the prefix of options that no option has: options that an earlier version had, and misspelled ones.
enum UnreadVariables {
    private static let prefix = "PATHMIRROR_"
    /// Prefixes of variables that feeds name, and of those that Kubernetes sets for a service called `pathmirror`.
    private static let otherPrefixes = ["PATHMIRROR_SINK_", "PATHMIRROR_SERVICE_", "PATHMIRROR_PORT_"]

    /// Returns the names, sorted. An option of any command counts, as several commands may share one environment.
    static func names(_ environment: Environment) -> [String] {
        let options = Commands.all.flatMap { $0.specification.options }
        let read = Set(options.map(\.environmentName)).union([Tuning.variable])
        return environment.all.keys.filter { name in
            name.hasPrefix(prefix) && !read.contains(name) && !otherPrefixes.contains { name.hasPrefix($0) }
        }.sorted()
    }
}
