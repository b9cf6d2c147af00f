import ClientCore
import Tree
import WebSocketClient
import Wire

extension FuzzTarget {
    /// Messages of a server to a client's connection, one per line, after a valid greeting.
    static let connection = FuzzTarget(
        name: "client-connection",
        corpus: [
            #"{"t":"d","d":{"r":1,"b":{"s":"ok","d":{"auth":{"uid":"u"},"expires":1600000000}}}}"# + "\n"
                + #"{"t":"d","d":{"r":2,"b":{"s":"ok","d":{}}}}"# + "\n"
                + #"{"t":"d","d":{"r":3,"b":{"s":"ok","d":""}}}"#,
            #"{"t":"d","d":{"r":1,"b":{"s":"ok","d":""}}}"# + "\n"
                + #"{"t":"d","d":{"a":"d","b":{"p":"a","d":{"x":1},"t":7}}}"# + "\n"
                + #"{"t":"d","d":{"a":"c","b":{"p":"a","q":[{"l":2,"vf":"r"}]}}}"#,
            #"{"t":"d","d":{"r":1,"b":{"s":"invalid_token","d":"no"}}}"#, #"{"t":"c","d":{"t":"r","d":"other:443"}}"#,
            #"{"t":"c","d":{"t":"s","d":"moved"}}"#,
            "2\n{\"t\":\"d\",\"d\":{\"r\":1,\"b\":{\"s\"\n:\"ok\",\"d\":\"\"}}}\n0",
            #"{"t":"d","d":{"a":"ac","b":{"s":"expired_token","d":"over"}}}"#,
        ],
        tokens: Corpora.tokens + [
            "\n", "\"r\":1,", "\"r\":2,", "\"r\":5,", "\"t\":7", "\"s\":\"ok\"", "\"permission_denied\"",
            "{\"t\":\"d\",\"d\":",
            "{\"t\":\"c\",\"d\":", "\"a\":\"d\"", "\"a\":\"c\"", "\"a\":\"rm\"", "\"p\":\"a\"", "3\n", "999999\n",
            "\"expires\":9",
        ]
    ) { input, summary in
        var trial = ConnectionTrial()
        trial.greet()
        for line in input.split(separator: 10, omittingEmptySubsequences: false) { trial.hear(Array(line)) }
        summary.note(trial.reportCount)
        summary.note(trial.sentCount)
        return trial.finish()
    }.measuring { input in
        var trial = ConnectionTrial()
        trial.greet()
        for line in input.split(separator: 10, omittingEmptySubsequences: false) { trial.hear(Array(line)) }
    }

    /// Bytes of WebSocket frames that a client reads.
    static let serverFrames = FuzzTarget(
        name: "server-frames",
        corpus: [
            [0x81, 2, 0x68, 0x69, 0x89, 0, 0x8A, 1, 0x20, 0x88, 2, 3, 0xE8], [0x01, 1, 0x61, 0x89, 0, 0x80, 1, 0x62],
            [0x81, 126, 0, 3, 0x61, 0x62, 0x63], [0x81, 127, 0, 0, 0, 0, 0, 0, 0, 1, 0x61],
            [0x81, 3, 0xE2, 0x82, 0xAC],
        ],
        tokens: [
            [0x81], [0x01], [0x80], [0x00], [0x88, 2, 3, 0xE8], [0x89, 0], [126, 0], [127, 0, 0, 0, 0, 0], [0xFF],
        ]
    ) { input, summary in
        let whole = frames(input, of: input.count + 1)
        summary.note(whole.events.count)
        summary.note(Int(whole.violation?.code ?? 0))
        for size in [1, 3, 7] {
            let pieces = frames(input, of: size)
            if pieces.events != whole.events || pieces.violation != whole.violation {
                return "pieces give other frames"
            }
        }
        return nil
    }.measuring { _ = frames($0, of: 64) }

    private static func frames(
        _ bytes: [UInt8], of size: Int
    ) -> (events: [FrameReader.Event], violation: FrameReader.Violation?) {
        var reader = FrameReader(maxMessageBytes: 4_096)
        var events: [FrameReader.Event] = []
        for start in stride(from: 0, to: bytes.count, by: size) {
            let piece = Array(bytes[start..<min(bytes.count, start + size)])
            do {
                try piece.withUnsafeBytes { raw in try reader.take(raw) { events.append($0) } }
            } catch {
                return (events, error as? FrameReader.Violation)
            }
        }
        return (events, nil)
    }
}

/// A client with a login, two listens, three writes (the last one a transaction) and a get.
private struct ConnectionTrial {
    private static let writeIDs: [Int64] = [1, 2, 3]
    private var machine: ConnectionMachine
    private var number = ConnectionNumber(rawValue: 0)
    private var now: Int64 = 0
    private var answered: [WriteID: Int] = [:]
    private var gets = 0
    private(set) var reportCount = 0
    private(set) var sentCount = 0
    private var fault: String?

    init() {
        var settings = ConnectionSettings(host: "localhost", port: 80, isSecure: false, namespace: "demo")
        settings.maxMessageBytes = 4_096
        machine = ConnectionMachine(settings, seed: 1)
        let path = Path(splitting: "/a")
        machine.listen(QuerySpec(path: path), tag: nil, now: 0)
        machine.listen(QuerySpec(path: path, query: Query(limit: .last(2))), tag: ListenTag(rawValue: 7), now: 0)
        for id in Self.writeIDs {
            let write = PendingWrite(id: WriteID(rawValue: id), path: path, content: .overwrite(.int(id)))
            machine.write(write, hash: id == 3 ? "h" : nil, now: 0)
        }
        machine.goOnline(now: 0)
        machine.get(RequestID(rawValue: 1), QuerySpec(path: path), now: 0)
        carryOut()
    }

    mutating func greet() {
        hear(ServerMessage.hello(timestamp: 1_700_000_000_000, host: "localhost", session: "s"))
    }

    mutating func hear(_ text: [UInt8]) {
        let before = reportCount
        machine.transport(.received(text), of: number, now: now)
        carryOut()
        // A message is reported once, and so is each request that it ends.
        if reportCount - before > 20 { fault = "one message makes \(reportCount - before) reports" }
    }

    private mutating func carryOut() {
        for effect in machine.takeEffects() {
            switch effect {
            case .open(_, let opened): number = opened
            case .send: sentCount += 1
            case .sendListen(let request): sentCount += request.messages(hash: "").count
            case .askForToken: machine.tokenProvided(AuthRequest(token: "a.b.c"), now: now)
            case .close, .askForAppCheckToken: break
            case .report(let report):
                reportCount += 1
                if case .writeAnswered(let id, _, _) = report { answered[id, default: 0] += 1 }
                if case .getAnswered = report { gets += 1 }
            }
        }
    }

    /// Checks that all pending requests are answered exactly once, regardless of the server's messages.
    mutating func finish() -> String? {
        machine.goOffline(now: now)
        carryOut()
        if machine.isConnected || machine.deadline != nil { return "offline, but work remains" }
        machine.purgeWrites(now: now)
        carryOut()
        if gets != 1 { return "a request was answered \(gets) times" }
        for id in Self.writeIDs where answered[WriteID(rawValue: id)] != 1 {
            return "write \(id) was answered \(answered[WriteID(rawValue: id)] ?? 0) times"
        }
        return fault
    }
}
