import Glibc

/// The environment that the program was started with.
struct Environment {
    private let values: [String: String]

    static var current: Environment {
        var values: [String: String] = [:]
        var pointer = environ
        while let entry = pointer.pointee {
            let text = String(cString: entry)
            if let equals = text.firstIndex(of: "=") {
                values[String(text[..<equals])] = String(text[text.index(after: equals)...])
            }
            pointer += 1
        }
        return Environment(values: values)
    }

    init(values: [String: String]) { self.values = values }

    /// Everything, for those who look names up later.
    var all: [String: String] { values }

    subscript(_ name: String) -> String? { values[name] }
}
