import Testing
import Tree

/// The value that an export-form JSON text stands for.
func node(_ text: String, location: SourceLocation = #_sourceLocation) throws -> Node {
    do {
        return try JSONParser.parse(text)
    } catch {
        Issue.record("\(error) in \(text.prefix(200))", sourceLocation: location)
        throw error
    }
}

/// A value's JSON text.
func json(_ node: Node, _ form: JSONForm = .export) -> String {
    String(decoding: JSONWriter.encode(node, form: form), as: UTF8.self)
}

func path(_ text: String) -> Path { Path(splitting: text) }

/// The error that parsing ends in, or nil when the text is fine.
func parseError(_ bytes: [UInt8]) -> JSONError? {
    do throws(JSONError) {
        _ = try JSONParser.parse(bytes)
        return nil
    } catch {
        return error
    }
}

func parseError(_ text: String) -> JSONError? { parseError(Array(text.utf8)) }

extension Node {
    /// The keys of the children, in order.
    var keys: [String] {
        guard case .branch(let branch) = self else { return [] }
        return branch.children.map(\.key.text)
    }
}
