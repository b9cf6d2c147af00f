import Tree
import Wire

extension FuzzTarget {
    /// Messages of realtime servers that a client reads.
    static let serverMessage = FuzzTarget(
        name: "server-message",
        corpus: [
            #"{"t":"c","d":{"t":"h","d":{"ts":1795162912489,"v":"5","h":"localhost:9560","s":"3377e5c0"}}}"#,
            #"{"t":"c","d":{"t":"o","d":null}}"#, #"{"t":"c","d":{"t":"r","d":"other:443"}}"#,
            #"{"t":"d","d":{"r":9,"b":{"s":"ok","d":{"w":["no_index"]}}}}"#,
            #"{"t":"d","d":{"r":2,"b":{"s":"ok","d":{"auth":{"uid":"u"},"expires":1600000000}}}}"#,
            #"{"t":"d","d":{"a":"d","b":{"p":"a/b","d":{"x":{".value":1,".priority":"p"}},"t":7}}}"#,
            #"{"t":"d","d":{"a":"m","b":{"p":"list","d":{"k1":null,"k3/a":[1,2]}}}}"#,
            #"{"t":"d","d":{"a":"rm","b":{"p":"x","d":[{"s":"a/b","e":"c","m":{"c":{"d":1,".priority":2}}},{"s":"c","m":null}]}}}"#,
            #"{"t":"d","d":{"a":"rm","b":{"p":"x","d":[{"s":"-a","m":{"-a":{".value":1,".priority":2},".priority":7,"z":1}}]}}}"#,
            #"{"t":"d","d":{"a":"rm","b":{"p":"x","d":[{"s":"a/0","m":{"a":[1,null,{".value":null,"b":[2]}]}},{"m":0}]}}}"#,
            #"{"t":"d","d":{"a":"c","b":{"p":"x","q":[{"l":2,"vf":"r"}]}}}"#,
            #"{"t":"d","d":{"a":"ac","b":{"s":"expired_token","d":"Auth token is expired."}}}"#,
            #"{"t":"d","d":{"a":"sd","b":{"msg":"text"}}}"#,
        ],
        tokens: Corpora.tokens + [
            "\"t\":", "\"d\":", "\"a\":", "\"b\":", "\"p\":", "\"q\":", "\"s\":", "\"e\":", "\"m\":", "\"r\":1,",
            "\"rm\"", "\"ac\"", "\"apc\"", "\"sd\"", "\"h\"", "{\"m\":", ".priority",
        ]
    ) { input, summary in
        let message: ServerMessage
        do throws(MessageError) {
            message = try ServerMessageParser.parse(input)
        } catch {
            summary.note(error.reason.utf8.count)
            return nil
        }
        let text = message.text
        guard RawJSON(text).isJSON else { return "the written message is not JSON" }
        guard let again = try? ServerMessageParser.parse(text), again == message else {
            return "the written message reads as another"
        }
        guard case .push(.ranges(_, let ranges, _, _)) = message else { return nil }
        let applied = RangeMerge.apply(ranges, to: sample)
        summary.note(applied.rowCount)
        // A client that has applied the ranges receives no further ranges.
        let hash = CompoundHash(of: applied, partBytes: 16)
        return RangeMerge.differences(applied, hash).isEmpty ? nil : "a value differs from its own hashes"
    }.measuring { _ = try? ServerMessageParser.parse($0) }

    private static let sample = Node(children: [
        (Key("a"), Node(children: [(Key("b"), .int(1)), (Key("c"), .string("x"))])), (Key("c"), .bool(true)),
        (Key("10"), Node.int(5).withPriority(.int(1))),
    ])

    /// Event streams in pieces, and the updates in their events.
    static let eventStream = FuzzTarget(
        name: "event-stream",
        corpus: [
            "event: put\ndata: {\"path\":\"/\",\"data\":{\"a\":1}}\n\n",
            "event: patch\r\nid: 1.2\r\ndata: {\"path\":\"/c\",\"data\":{\"foo\":true,\"x/y\":[1]}}\r\n\r\n",
            "event: keep-alive\ndata: null\n\n", "event: cancel\rdata: \"Permission denied.\"\r\r",
            ": comment\nretry: 3000\ndata: a\ndata: b\n\n", "data\n\nid\n\nevent\n\n", "\u{FEFF}data: x\n\n",
        ],
        tokens: [
            "\n", "\r", "\r\n", "\n\n", "data: ", "data:", "event: put\n", "event: patch\n", "id: 7\n", "retry: 5\n",
            ":",
            "{\"path\":\"/a\",\"data\":", "null", "\u{FEFF}", "\0", "é", "{", "}", "\"",
        ]
    ) { input, summary in
        let whole = events(input, of: input.count + 1)
        for size in [1, 3, 7] where events(input, of: size) != whole { return "pieces of the input give other events" }
        for event in whole ?? [] {
            if event.data.count > 256 { return "an event beyond the limit" }
            guard case .change(let change)? = try? StreamUpdate(event) else { continue }
            let text = StreamEvent.encode(change, id: "1", form: .export)
            guard let again = events(text, of: text.count, maxBytes: 1 << 20)?.first,
                (try? StreamUpdate(again)) == .change(change)
            else { return "the written event reads as another" }
            summary.note(1)
        }
        summary.noteSize(whole?.count ?? -1)
        return nil
    }.measuring { _ = events($0, of: $0.count + 1) }

    /// Returns the events of a stream that arrives in pieces, or nil if the parser rejects it.
    private static func events(_ bytes: [UInt8], of size: Int, maxBytes: Int = 256) -> [ServerSentEvent]? {
        var parser = EventStreamParser(maxBytes: maxBytes)
        var events: [ServerSentEvent] = []
        for start in stride(from: 0, to: bytes.count, by: size) {
            let piece = bytes[start..<min(bytes.count, start + size)]
            do { try parser.take(piece, into: &events) } catch { return nil }
        }
        return events
    }
}
