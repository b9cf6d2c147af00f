import TestSupport
import Testing
import Tree

@testable import Wire

/// Checks priorities after a range merge, in the caches of the Java, Android and Apple SDKs (rtdb-protocol 3.7).
@Suite struct RangeMergePriorityTests {
    /// Returns the `d` of the message for a client with these hashes.
    private func message(_ server: Node, _ hash: CompoundHash) throws -> RawJSON {
        let push = ServerMessage.finish(
            ServerMessage.rangeMerge(RangeMerge.differences(server, hash), listener: .root), tag: nil)
        var json = RawJSON(push)
        for name in ["d", "b", "d"] {
            let members = try #require(json.members)
            json = try #require(MessageFields(members)[name])
        }
        return json
    }

    private struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let client: String
        let server: String
        let message: String
    }

    /// The cases, in each of which a range ends with each leaf of the client.
    private static let cases: [Case] = [
        Case(
            testDescription: "the leaf at the start of a range",
            client: #"{"a":{".value":1,".priority":5},"b":2}"#, server: #"{"a":{".value":1,".priority":5},"b":3}"#,
            message: #"[{"s":"a","e":"b","m":{"a":{".value":1,".priority":5},"b":3}}]"#),
        Case(
            testDescription: "the leaf at the start of a range that loses its leaves",
            client: #"{"a":{".value":1,".priority":5},"b":2}"#, server: #"{"a":{".value":1,".priority":5}}"#,
            message: #"[{"s":"a","e":"b","m":{"a":{".value":1,".priority":5}}}]"#),
        Case(
            testDescription: "a leaf without a priority is not repeated",
            client: #"{"a":1,"b":2}"#, server: #"{"a":1,"b":3}"#, message: #"[{"s":"a","e":"b","m":{"b":3}}]"#),
        Case(
            testDescription: "the priority of a list, after all its keys",
            client: #"{"-Na":1,"-Nb":2}"#, server: #"{"-Na":1,"-Nb":2,".priority":7}"#,
            message: #"[{"s":"-Nb","m":{"-Nb":2,".priority":7}}]"#),
        Case(
            testDescription: "the priority of an array",
            client: #"{"l":{"0":1,"1":2}}"#, server: #"{"l":{"0":1,"1":2,".priority":"p"}}"#,
            message: #"[{"s":"l/1","m":{"l":{"1":2,".priority":"p"}}}]"#),
        Case(
            testDescription: "a priority before the leaves of its node",
            client: #"{"a":{"-x":1},"b":2}"#, server: #"{"a":{"-x":1,".priority":7},"b":2}"#,
            message: #"[{"s":"a/-x","e":"b","m":{"a":{"-x":1,".priority":7},"b":2}}]"#),
        Case(
            testDescription: "a leaf above the start of a range",
            client: #"{"a":{"-x":1},"b":2}"#, server: #"{"a":{".value":5,".priority":3},"b":3}"#,
            message: """
                [{"e":"a/-x","m":{"a":{".value":5,".priority":3}}},\
                {"s":"a/-x","e":"b","m":{"a":{".value":5,".priority":3},"b":3}}]
                """),
        Case(
            testDescription: "a leaf above the start of a range, with a priority that sorts before it",
            client: #"{"a":{"x":1,"y":1},"b":2}"#, server: #"{"a":{".value":5,".priority":3},"b":3}"#,
            message: """
                [{"e":"a/x","m":{"a":{".value":5,".priority":3}}},{"s":"a/x","e":"a/y","m":null},\
                {"s":"a/y","e":"b","m":{"b":3}}]
                """),
        Case(
            testDescription: "a node that is empty until a later range",
            client: #"{"p":{"-a":1,".priority":6,"b":2},"z":0}"#, server: #"{"p":{".priority":7,"x":1},"z":0}"#,
            message: #"[{"e":"p/-a","m":null},{"s":"p/-a","e":"z","m":{"p":{".priority":7,"x":1},"z":0}}]"#),
        Case(
            testDescription: "a node whose only leaf comes with an earlier range",
            client: #"{"p":{"-b":1},"z":0}"#, server: #"{"p":{"-a":1,".priority":7},"z":0}"#,
            message:
                #"[{"e":"p/-b","m":{"p":{"-a":1}}},{"s":"p/-b","e":"z","m":{"p":{"-a":1,".priority":7},"z":0}}]"#),
    ]

    @Test(arguments: cases) private func messages(_ one: Case) throws {
        let server = try JSONParser.parse(one.server)
        var cache = SDKCache(try JSONParser.parse(one.client), seed: 1)
        let message = try message(server, cache.compoundHash(partBytes: 0))
        #expect(string(message.bytes) == one.message)
        cache.apply(message)
        #expect(cache.value == server)
    }

    /// Checks how this project's client library applies the same messages.
    @Test(arguments: cases) private func ownClients(_ one: Case) throws {
        let server = try JSONParser.parse(one.server)
        let client = try JSONParser.parse(one.client)
        let ranges = RangeMerge.differences(server, CompoundHash(of: client, partBytes: 0))
        let push = ServerMessage.push(.ranges(.root, ranges, tag: nil))
        guard case .push(.ranges(_, let read, _, _)) = try ServerMessageParser.parse(push.text) else {
            throw MessageError(reason: "no ranges")
        }
        #expect(read == ranges)
        #expect(RangeMerge.apply(read, to: client) == server)
    }

    // MARK: Random trees

    /// Keys that sort before and after `.priority`, including integers.
    private static let keys = ["0", "2", "10", "-1", "!", "-Na", "-Nb", "a", "b", "z"].map { Key($0) }

    private func tree(_ random: inout SeededGenerator, depth: Int) -> Node {
        let priority: Node = random.oneIn(2) ? .null : random.oneIn(2) ? .int(Int64(random.below(3))) : .string("p")
        if depth == 0 || random.oneIn(4) { return Node.int(Int64(random.below(4))).withPriority(priority) }
        let children = (0..<random.below(5)).map { _ in (random.pick(Self.keys), tree(&random, depth: depth - 1)) }
        return Node(children: children, priority: priority)
    }

    private func changed(_ node: Node, _ random: inout SeededGenerator) -> Node {
        var path = Path()
        for _ in 0..<random.below(4) {
            guard case .branch(let branch) = node[path], !random.oneIn(5) else { break }
            path.append(random.pick(branch.children.map(\.key)))
        }
        switch random.below(6) {
        case 0: return node.replacing(path, with: .null)
        case 1: return node.replacing(path, with: tree(&random, depth: 2))
        case 2: return node.replacing(path.appending(random.pick(Self.keys)), with: tree(&random, depth: 1))
        case 3: return node.replacing(path.appending(.priority), with: .null)
        default: return node.replacing(path.appending(.priority), with: .int(Int64(random.below(5))))
        }
    }

    /// Returns the client's value without the priorities that its hashes omit and the server has removed.
    private func withoutHidden(_ client: Node, beside server: Node) -> Node {
        guard case .branch(let mine) = client, case .branch(let theirs) = server else { return client }
        let isHidden = theirs.priority.isNull && mine.children.allSatisfy { $0.key < .priority }
        return Node(
            children: mine.children.map { ($0.key, withoutHidden($0.node, beside: server[Path([$0.key])])) },
            priority: isHidden ? .null : mine.priority)
    }

    /// A client that missed some changes has the server's value after the message, including priorities.
    @Test(arguments: 1...6 as ClosedRange<UInt64>) func everyPriorityArrives(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed &* 7919)
        for round in 0..<300 {
            let server = tree(&random, depth: 3)
            var old = random.oneIn(8) ? tree(&random, depth: 3) : server
            for _ in 0..<random.below(5) { old = changed(old, &random) }
            var cache = SDKCache(old, seed: random.next())
            let hash = try cache.compoundHash(partBytes: random.pick([0, 0, 30, 80, 200]))
            let message = try message(server, hash)
            cache.apply(message)
            if cache.value == server { continue }
            let here: Comment = """
                seed \(seed), round \(round): \(text(old)) to \(text(server)) by \(string(message.bytes))
                """
            // The whole value is sent with the next listen whose range hashes agree.
            #expect(withoutHidden(cache.value, beside: server) == server, here)
            #expect(cache.value.hash != server.hash, here)
        }
    }

    private func text(_ node: Node) -> String { string(JSONWriter.encode(node, form: .export)) }

    /// The ranges of a message are in order, do not overlap, and contain only leaves within their bounds.
    @Test(arguments: 11...14 as ClosedRange<UInt64>) func rangesAreInOrder(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed &* 7919)
        for _ in 0..<100 {
            let (server, old) = (tree(&random, depth: 3), tree(&random, depth: 3))
            let found = RangeMerge.differences(server, try SDKCache(old, seed: 1).compoundHash(partBytes: 0))
            for (first, second) in zip(found, found.dropFirst()) {
                guard let end = first.end, let start = second.start else {
                    Issue.record("a range without an end is followed")
                    continue
                }
                #expect(RangeMerge.order(end, start) <= 0)
            }
            for range in found {
                #expect(range.rows.allSatisfy { range.includes($0.path) })
                #expect(range.repeated.allSatisfy { !range.includes($0.path) && !$0.path.namesPriority })
            }
        }
    }
}
