import Tree

extension FuzzTarget {
    /// Bodies of writes: any JSON value.
    static let json = FuzzTarget(
        name: "json", corpus: Corpora.json, tokens: Corpora.tokens
    ) { input, summary in
        let parsed: JSONParser.Parsed
        do throws(JSONError) {
            parsed = try JSONParser.parse(input)
        } catch {
            return Claims.error(error, in: input, &summary)
        }
        let node = parsed.node
        if let wrong = Claims.value(node, &summary) { return wrong }
        let borrowed = input.withUnsafeBytes { try? JSONParser.parse($0) }
        guard borrowed == node else { return "borrowed bytes read otherwise" }
        // Text of its own means the same with spaces around it.
        guard (try? JSONParser.parse([0x0A, 0x20] + input + [0x0D, 0x09]))?.node == node else { return "spaces matter" }
        summary.note(parsed.hasServerValue ? 1 : 0)
        let base = node.replacing(Path([Key("a"), Key("b")]), with: .int(1))
        let resolved = node.resolved(existing: base, timestamp: 1_700_000_000_000)
        guard parsed.hasServerValue || resolved == node else {
            return "resolving changed a value without server values"
        }
        let text = JSONWriter.encode(resolved, form: .export)
        guard let final = try? JSONParser.parse(text), !final.hasServerValue, final.node == resolved else {
            return "a resolved value does not write and read back"
        }
        return Claims.stored(resolved)
    }.measuring { _ = try? JSONParser.parse($0) }
}
