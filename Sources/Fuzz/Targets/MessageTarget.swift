import Tree
import Wire

extension FuzzTarget {
    /// Messages of realtime clients.
    static let message = FuzzTarget(
        name: "message",
        corpus: [
            "{\"t\":\"c\",\"d\":{\"t\":\"p\",\"d\":{}}}",
            "{\"t\":\"d\",\"d\":{\"r\":1,\"a\":\"s\",\"b\":{\"c\":{\"sdk.js.9-6-1\":1}}}}",
            "{\"t\":\"d\",\"d\":{\"r\":2,\"a\":\"q\",\"b\":{\"p\":\"/a\",\"q\":{\"sp\":1,\"sn\":\"k\",\"sin\":true,\"l\":2,\"vf\":\"r\",\"i\":\"x/y\"},\"t\":1,\"h\":\"\"}}}",
            "{\"t\":\"d\",\"d\":{\"r\":3,\"a\":\"q\",\"b\":{\"p\":\"/a\",\"h\":\"\",\"ch\":{\"ps\":[\"a/b\"],\"hs\":[\"x\",\"\"]}}}}",
            "{\"t\":\"d\",\"d\":{\"r\":4,\"a\":\"p\",\"b\":{\"p\":\"/a\",\"d\":{\"x\":{\".sv\":\"timestamp\"}},\"h\":\"y\"}}}",
            "{\"t\":\"d\",\"d\":{\"r\":5,\"a\":\"m\",\"b\":{\"p\":\"/\",\"d\":{\"p/q\":1,\"r\":null}}}}",
            "{\"t\":\"d\",\"d\":{\"r\":6,\"a\":\"auth\",\"b\":{\"cred\":\"x\",\"authvar\":{\"uid\":1},\"noauth\":true}}}",
        ],
        tokens: [
            "{", "}", "[", "]", "\"", ":", ",", "\"t\"", "\"d\"", "\"a\"", "\"b\"", "\"r\"", "\"p\"", "\"q\"", "null",
            "\"om\"", "\"oc\"", "\"g\"", "\"n\"", "1e99", "-1", "true", "\\", "\\u0000", "[MAX_NAME]",
        ]
    ) { input, summary in
        do throws(MessageError) {
            guard case .request(let request) = try ClientMessageParser.parse(input) else { return nil }
            if case .refused(let reason) = request.action { summary.note(reason.utf8.count) }
            if case .echo(let value) = request.action, !Self.isJSON(value.text) { return "an echo that is no JSON" }
            if case .listen(let listen, _, _) = request.action, let text = listen.queryText, !Self.isJSON(text) {
                return "a query that goes back and is no JSON"
            }
            if case .merge(_, let changes, _, _, _) = request.action, Change.overlap(in: changes) != nil {
                return "a merge whose places overlap"
            }
        } catch {
            summary.note(error.reason.utf8.count)
        }
        var segments = SegmentAssembler(maxBytes: 64)
        for piece in input.split(separator: 0x7D, omittingEmptySubsequences: false) {
            if case .message(let message) = segments.take(Array(piece)), message.count > 64 {
                return "a message over the bound"
            }
        }
        return nil
    }.measuring { _ = try? ClientMessageParser.parse($0) }

    private static func isJSON(_ text: [UInt8]) -> Bool { RawJSON(text).isJSON }
}
