import Testing
import Tree

/// Returns the value of a JSON text in export form.
func node(_ text: String, location: SourceLocation = #_sourceLocation) throws -> Node {
    do {
        return try JSONParser.parse(text)
    } catch {
        Issue.record("\(error) in \(text.prefix(200))", sourceLocation: location)
        throw error
    }
}

/// Returns a value's JSON text.
func json(_ node: Node, _ form: JSONForm = .export) -> String {
    String(decoding: JSONWriter.encode(node, form: form), as: UTF8.self)
}

func path(_ text: String) -> Path { Path(splitting: text) }

/// Returns the error of parsing, or nil if the text is valid.
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
