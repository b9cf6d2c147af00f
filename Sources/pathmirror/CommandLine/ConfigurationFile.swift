/// Files of `name = value` lines; `#` begins a comment line.
enum ConfigurationFile {
    static func read(_ path: String, _ specification: CommandSpecification) throws -> [String: String] {
        let text = String(decoding: try Files.read(path), as: UTF8.self)
        var values: [String: String] = [:]
        for (number, line) in text.split(omittingEmptySubsequences: false, whereSeparator: isLineEnd).enumerated() {
            let line = line.drop { $0 == " " || $0 == "\t" }
            if line.isEmpty || line.hasPrefix("#") || line.hasPrefix("\r") { continue }
            guard let equals = line.firstIndex(of: "=") else {
                throw UsageError("\(path), line \(number + 1): expected 'name = value'.")
            }
            let name = Self.trimmed(line[..<equals])
            guard let option = specification.configurable.first(where: { $0.name == name }) else {
                let nearest = NearestWord.all(name, among: specification.configurable.map(\.name))
                throw UsageError(
                    "\(path), line \(number + 1): there is no option \"\(name)\".\(NearestWord.question(nearest))")
            }
            ParsedArguments.give(Self.trimmed(line[line.index(after: equals)...]), to: option, in: &values)
        }
        return values
    }

    /// What ends a line; "\r\n" is one character.
    private static func isLineEnd(_ character: Character) -> Bool { character == "\n" || character == "\r\n" }

    private static func trimmed(_ text: Substring) -> String {
        let isBlank = { (character: Character) in character == " " || character == "\t" || character == "\r" }
        var text = text.drop(while: isBlank)
        while let last = text.last, isBlank(last) { text = text.dropLast() }
        return String(text)
    }
}
