import Tree

extension FuzzTarget {
    /// Changes as recorded in the log.
    static let changes = FuzzTarget(
        name: "changes",
        corpus: Corpora.json + [
            #"{"/":1}"#, #"{"/a/b":{"c":{".value":1,".priority":2}},"/a":null,"/a/.priority":"p"}"#,
            #"{"/.priority":1.5}"#,
        ], tokens: Corpora.tokens + ["\"/\":", "\"/a/b\":", "/.priority\":"]
    ) { input, summary in
        let changes: [Change]
        do throws(JSONError) {
            changes = try ChangeCodec.decode(input)
        } catch {
            return NodeClaims.error(error, in: input, &summary)
        }
        summary.noteSize(changes.count)
        for change in changes { summary.noteSize(change.path.depth) }
        let text = ChangeCodec.encode(changes)
        guard let again = try? ChangeCodec.decode(text) else { return "the written record is refused" }
        guard again == changes else { return "the written record reads as other changes" }
        guard ChangeCodec.encode(again) == text else { return "the written record is not stable" }
        return nil
    }.measuring { _ = try? ChangeCodec.decode($0) }
}
