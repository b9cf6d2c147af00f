/// The targets below Sources and their dependencies in Package.swift. SwiftPM allows imports of indirect dependencies; the tests allow
/// only direct ones.
enum Manifest {
    /// By the name of the target's folder.
    static let dependencies: [String: Set<String>] = targets(in: SourceFiles.text("Package.swift"))

    /// Reads calls of `target("Name", ["Dependency"])` and `.target(name: "Name", dependencies: ["Dependency"], …)`, also of executables.
    /// Leaves out targets outside Sources.
    static func targets(in text: String) -> [String: Set<String>] {
        var found: [String: Set<String>] = [:]
        for start in text.ranges(of: /^ +(?:\.executableTarget|\.target|target)\(/.anchorsMatchLineEndings()) {
            let call = arguments(text[start.upperBound...])
            let words = call.split(separator: "\"", omittingEmptySubsequences: false)
            guard words.count > 1, words[0].allSatisfy({ $0.isWhitespace || "name: ".contains($0) }) else { continue }
            var folder = String(words[1])
            if let path = call.firstMatch(of: /path: "([^"]+)"/)?.1 {
                guard path.hasPrefix("Sources/") else { continue }
                folder = String(path.dropFirst("Sources/".count))
            }
            found[folder] = dependencies(of: call)
        }
        return found
    }

    /// The text up to the parenthesis that ends the call.
    private static func arguments(_ text: Substring) -> Substring {
        var depth = 1
        for index in text.indices {
            if text[index] == "(" { depth += 1 }
            if text[index] == ")" { depth -= 1 }
            if depth == 0 { return text[..<index] }
        }
        return text
    }

    /// The names in the list that follows the target's name.
    private static func dependencies(of call: Substring) -> Set<String> {
        let found = call.firstMatch(of: /"[A-Za-z0-9-]+",\s*(?:dependencies:\s*)?\[([^\]]*)\]/)
        guard let list = found?.1 else { return [] }
        return Set(list.matches(of: /"([A-Za-z0-9-]+)"/).map { String($0.1) })
    }
}
