import JSONText
import Mirrors
import Tree

extension FuzzTarget {
    /// Files of mirror definitions. Reading them needs no database.
    static let mirror = FuzzTarget(
        name: "mirror",
        corpus: [
            #"{"name":"posts","path":"/posts/{id}","columns":{"title":"text"}}"#,
            #"[{"name":"m","namespace":"n","path":"/a/{x}/b/{y}","table":"s.t","keys":{"x":"bigint","y":{"type":"uuid","comment":"c"}},"columns":{"v":{"type":"jsonb","path":"."}},"rest":"other"}]"#,
            #"{"mirrors":[{"name":"u-1","path":"/u/{k}","columns":{"p":{"type":"numeric","path":"a/.priority","default":1.50,"not null":"default","comment":"é"},"t":{"type":"text[]","not null":"skip"}},"rest":{"column":"r","comment":"x"},"indexes":["p",["t"],{"columns":["k","p"],"using":"btree"}],"keep errors":5}]}"#,
            #"{"name":"z","path":"/z/{k}","target":"env:Z","columns":{"d":{"type":"timestamptz","default":"2026-01-31T00:00:00Z"},"n":{"type":"double precision","default":1e3}}}"#,
            #"{"name":"\u0061","path":"/\ud83d\ude00/{é}","columns":{"a//b":{"type":"boolean","path":"a/b","default":true}}}"#,
        ],
        tokens: [
            "{", "}", "[", "]", ":", ",", "\"", "\\", "\\u", "\\ud800", "\\udc00", "\\ud83d\\u0041", "+",
            "\"name\":\"m\",",
            "\"path\":\"/a/{k}\"", "{k}", "/",
            ".", "\"columns\":{", "\"a\":\"text\"", "\"type\":", "\"bigint\"", "\"jsonb\"", "\"date\"", "\"uuid\"",
            "\"default\":", "\"not null\":",
            "\"skip\"", "\"path\":", "\"indexes\":[", "\"using\":\"gin\"", "\"rest\":", "\"keys\":{",
            "\"target\":\"postgres://u:p@h/d\"",
            "\"keep errors\":", "1e999", "-0.0", "9223372036854775808", "null", "true", "\"_x\"", "é", "e\u{301}",
            "\u{0}", "\n", "\"mirrors\":",
        ]
    ) { input, summary in
        let definitions: [MirrorDefinition]
        do throws(DefinitionError) {
            definitions = try MirrorDefinition.read(input, source: "f")
        } catch {
            return definitionRefusal(error, of: input, &summary)
        }
        guard RawJSON(input).isJSON else { return "an input that is not JSON is read" }
        if definitions.isEmpty { return "a file without mirrors is read" }
        for definition in definitions {
            summary.noteSize(definition.columns.count)
            summary.noteSize(definition.json.count)
            if let wrong = roundTrip(definition) { return wrong }
        }
        return nil
    }.measuring { _ = try? MirrorDefinition.read($0, source: "f") }

    /// Checks that the error for a rejected file of definitions contains reasons, and positions inside the file.
    static func definitionRefusal(
        _ error: DefinitionError, of input: [UInt8], _ summary: inout Summary
    ) -> String? {
        if error.problems.isEmpty || error.description.isEmpty { return "a refusal without a reason" }
        let lines = input.split(separator: 0x0A, omittingEmptySubsequences: false)
        for problem in error.problems {
            if problem.reason.isEmpty { return "a problem without a text" }
            guard let position = problem.position, (1...lines.count).contains(position.line), position.column >= 1,
                position.column <= lines[position.line - 1].count + 1
            else { return "a problem outside the text: \(error)" }
        }
        for problem in error.problems.prefix(2) { summary.noteWords(of: problem.reason) }
        return nil
    }

    /// Checks that the stored form reads back as the same mirror, except for the target, which may contain a password
    /// and is not stored there.
    private static func roundTrip(_ definition: MirrorDefinition) -> String? {
        guard let again = try? MirrorDefinition.read(definition.json, source: "f"), again.count == 1 else {
            return "the kept form is refused: \(String(decoding: definition.json, as: UTF8.self))"
        }
        guard again[0].json == definition.json else { return "the kept form is not stable" }
        guard definition.target != nil || again[0] == definition else { return "the kept form is another mirror" }
        guard let pretty = try? MirrorDefinition.read(definition.encoded(pretty: true), source: "f"), pretty == again
        else {
            return "the readable form is another mirror"
        }
        let pattern = definition.pattern
        guard (try? PathPattern(pattern.description)) == pattern else { return "the pattern's text is another pattern" }
        let path = pattern.path(of: pattern.captures.map { Key($0) })
        guard path.depth == pattern.depth, pattern.base.contains(path) else { return "a record outside its mirror" }
        return nil
    }
}
