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
            "{\"t\":\"d\",\"d\":{\"r\":8,\"a\":\"om\",\"b\":{\"p\":\"/a\",\"d\":{\"b/c\":1,\"d\":null}}}}",
            "{\"t\":\"d\",\"d\":{\"r\":9,\"a\":\"om\",\"b\":{\"p\":\"/\",\"d\":{}}}}",
            "{\"t\":\"d\",\"d\":{\"r\":10,\"a\":\"o\",\"b\":{\"p\":\"/a/b\",\"d\":{\"c\":1}}}}",
            "{\"t\":\"d\",\"d\":{\"r\":11,\"a\":\"oc\",\"b\":{\"p\":\"/a/b\"}}}",
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
            if case .echo(let value) = request.action, !Self.isJSON(value.text) { return "an echo that is not JSON" }
            if case .listen(let listen, _, _, _) = request.action, let text = listen.queryText, !Self.isJSON(text) {
                return "a returned query that is not JSON"
            }
            if case .merge(_, let changes, _, _, _) = request.action, Change.overlap(in: changes) != nil {
                return "a merge whose paths overlap"
            }
            if let wrong = ordered(request.action, &summary) { return wrong }
            // Escapes may make a long hash longer than the parser accepts.
            if let text = request.text, text.count <= 1_024, (try? ClientMessageParser.parse(text))?.text != text {
                return "the written message reads as another"
            }
        } catch {
            summary.note(error.reason.utf8.count)
        }
        var segments = SegmentAssembler(maxBytes: 64)
        for piece in input.split(separator: 0x7D, omittingEmptySubsequences: false) {
            if case .message(let message) = segments.take(Array(piece)), message.count > 64 {
                return "a message over the limit"
            }
        }
        return nil
    }.measuring { _ = try? ClientMessageParser.parse($0) }

    /// Checks an onDisconnect request on a connection that has onDisconnect operations already.
    private static func ordered(_ action: ClientAction, _ summary: inout Summary) -> String? {
        let (above, below) = (Path(splitting: "a"), Path(splitting: "p/q"))
        var queue = DisconnectQueue()
        queue.put(above, Node(children: [(Key("b"), .int(1)), (Key("c"), .string("d"))]))
        queue.merge([Change(path: below, value: .int(1)), Change(path: Path(splitting: "e"), value: .null)])
        switch action {
        case .onDisconnectPut(let path, let value): queue.put(path, value)
        case .onDisconnectMerge(_, let changes): queue.merge(changes)
        case .onDisconnectCancel(let path): queue.cancel(path)
        default: return nil
        }
        summary.note(queue.operations.count)
        return queue.operations.contains { $0.changes.isEmpty } ? "an onDisconnect operation without changes" : nil
    }

    private static func isJSON(_ text: [UInt8]) -> Bool { RawJSON(text).isJSON }
}
