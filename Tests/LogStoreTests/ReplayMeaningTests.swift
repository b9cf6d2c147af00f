import Engine
import LogStore
import Postgres
import Rules
import TestSupport
import Testing
import Tree

/// Checks that an entry means the same (docs/reference/log.md) for all readers and writers, regardless of the order of
/// its changes.
///
/// Applies random trees with priorities and entries of values, removals and priorities in random order, in all ways of
/// writing, and compares with `PlainRows`, which does not depend on order.
@Suite struct ReplayMeaningTests {
    /// Checks that a gateway, a gateway that follows it, SQL, and a replay elsewhere give the rows of the plain model,
    /// and that `verify` and past trees agree, even if the order of changes in the log is reversed.
    @Test(arguments: [1, 2, 3, 4, 5, 6] as [UInt64])
    func anyOrderMeansTheSame(seed: UInt64) throws {
        try withEngines(2) { url, engines in
            let connection = try LogConnection(url)
            defer { connection.close() }
            let writing = try engines[0].namespace("gateway")
            let following = try engines[1].namespace("gateway")
            let sql = try connection.make("sql")
            let replayed = try connection.make("replayed")
            var entries = EntryGenerator(seed: seed)
            var model = PlainRows()
            var accepted: Int64 = 0
            for step in 0..<60 {
                let changes = entries.next(model)
                let write = Write(.update(base: .root, changes), operation: .update, byteCount: 64, auth: .admin)
                guard let seq = writing.write(write)?.committedSeq, seq == accepted + 1 else { continue }
                accepted = seq
                model.apply(changes)
                try #require(following.waitFor(seq))
                _ = try connection.sql.execute(
                    "select pathmirror.update('sql', '/', $1)",
                    [.jsonb(ChangeCodec.encode(entries.tree.random.shuffled(changes)))])
                let applier = EntryApplier(connection, replayed)
                let head = LogLine.Head(operation: .update, path: .root, committedAt: "0", origin: nil)
                let line = LogLine(
                    source: "test", seq: seq, content: .entry(head, entries.tree.random.shuffled(changes)))
                try applier.add(line, number: 1, byteCount: 1)
                try applier.finish()
                let what = "seed \(seed), step \(step): \(String(decoding: ChangeCodec.encode(changes), as: UTF8.self))"
                try #require(PlainRows(writing.snapshot.root) == model, "the gateway: \(what)")
                try #require(PlainRows(following.snapshot.root) == model, "its follower: \(what)")
                for name in ["gateway", "sql", "replayed"] {
                    let stored = try read(connection, name)
                    try #require(stored == model, "\(name) in SQL: \(what)")
                }
            }
            #expect(accepted > 20, "hardly anything was accepted: this proves less than it should")
            let records = [try #require(try connection.namespace(named: "gateway")), sql, replayed]
            try check(connection, records, model)
            try turnAround(connection)
            try check(connection, records, model)
        }
    }

    /// Checks that the rows of an import mean the same in any order and in many parts: for running gateways, SQL,
    /// `verify`, past trees and replays.
    @Test(arguments: [11, 12, 13, 14, 15, 16] as [UInt64])
    func partsMeanTheSameInAnyOrder(seed: UInt64) throws {
        try withEngines { url, engines in
            let connection = try LogConnection(url)
            defer { connection.close() }
            let live = try engines[0].namespace("import")
            let record = try #require(try connection.namespace(named: "import"))
            let target = try connection.make("replayed")
            var entries = EntryGenerator(seed: seed)
            var model = PlainRows()
            for step in 0..<20 {
                let location = entries.location(model)
                var rows = entries.tree.random.shuffled(
                    PlainRows(Node.null.replacing(location, with: entries.value(4))).rows)
                if rows.isEmpty { rows = [(location, .int(1))] }
                model.apply([Change(path: location, value: .null)], isReplaced: true)
                model.apply(rows.map { Change(path: $0.0, value: $0.1) })
                var settings = Importer.Settings()
                settings.bufferBytes = 40
                let importer = try Importer(connection, named: "import", at: location, settings: settings)
                for (path, value) in rows { try importer.add(Array(path.description.utf8), value) }
                try importer.finish()
                let seq = importer.lastSeq
                try #require(live.waitFor(seq))
                try #require(
                    PlainRows(live.snapshot.root) == model, "the gateway: seed \(seed), step \(step), \(location)")
                let applier = EntryApplier(connection, target)
                try LogLines(connection, record).run(from: seq, to: seq, time: { "\($0)" }) {
                    try applier.add($0, number: 1, byteCount: 1)
                }
                try applier.finish()
                for name in ["import", "replayed"] {
                    try #require(
                        try read(connection, name) == model, "\(name) in SQL: seed \(seed), step \(step), \(location)")
                }
            }
            try check(connection, [record, target], model)
            try turnAround(connection)
            try check(connection, [record, target], model)
        }
    }

    /// Checks that entries written before this rule keep the meaning given by their order.
    @Test func olderEntriesMeanWhatTheirOrderSays() throws {
        try withSession { connection in
            let record = try connection.make()
            for (seq, changes) in [
                (1, #"{"/a/.priority":5,"/a/b":1}"#), (2, #"{"/c/d":1}"#), (3, #"{"/c/.priority":2}"#),
                (4, #"{"/c/d":null,"/c/e":1}"#),
            ] {
                try connection.ensurePartition(record.id, upTo: 10)
                _ = try connection.sql.execute(
                    """
                    insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes)
                    values ($1, $2, now(), gen_random_uuid(), 'update', '/', $3)
                    """, [.int8(record.id), .int8(Int64(seq)), .json(Array(changes.utf8))])
            }
            _ = try connection.sql.execute("update pathmirror.namespace set head = 4, any_order_from = 5")
            let older = try JSONParser.parse(#"{"a":{"b":1},"c":{"e":1}}"#)
            var tree = try PastTree(connection, record, for: 4)
            try tree.advance(to: 4)
            #expect(tree.root == older)
            _ = try connection.sql.execute("update pathmirror.namespace set any_order_from = 1")
            tree = try PastTree(connection, record, for: 4)
            try tree.advance(to: 4)
            #expect(
                try tree.root
                    == JSONParser.parse(#"{"a":{"b":1,".priority":5},"c":{"e":1,".priority":2}}"#))
        }
    }

    /// Checks that an entry with two changes, one at or below the other, is refused.
    @Test func overlappingChangesAreRefused() throws {
        try withSession { connection in
            let applier = try EntryApplier(connection, named: "new")
            let head = LogLine.Head(operation: .update, path: .root, committedAt: "0", origin: nil)
            let changes = [
                Change(path: Path(splitting: "/a/b"), value: .int(1)),
                Change(path: Path(splitting: "/a"), value: .int(2)),
            ]
            #expect(
                throws: ReplayError.badLine(
                    7, reason: "the line changes both /a and its descendant /a/b, which no entry can do")
            ) {
                try applier.add(
                    LogLine(source: "test", seq: 1, content: .entry(head, changes)), number: 7, byteCount: 1)
            }
            #expect(try connection.namespace(named: "new") == nil)
        }
    }

    private func read(_ connection: LogConnection, _ name: String) throws -> PlainRows {
        let text = try connection.sql.execute("select pathmirror.get_json($1)::text", [.text(name)])
        return PlainRows(text.isNull(0, 0) ? .null : try JSONParser.parse(try text.bytes(0, 0)).node)
    }

    private func check(_ connection: LogConnection, _ records: [NamespaceRecord], _ model: PlainRows) throws {
        for record in records {
            let result = try Verification.run(connection, record)
            #expect(result.isClean, "\(record.name): \(result.problems) \(result.differences.prefix(3))")
            var past = try PastTree(connection, record, for: result.head)
            try past.advance(to: result.head)
            #expect(PlainRows(past.root) == model, "\(record.name)")
        }
    }

    /// Reverses the changes of each entry and of each part, and the order of the parts.
    private func turnAround(_ connection: LogConnection) throws {
        try connection.sql.executeScript(
            """
            create function pg_temp.backwards(changes json) returns json language sql as $$
                select coalesce(json_object_agg(path, value order by position desc), '{}')
                from pathmirror.each_change(changes) $$;
            update pathmirror.log set changes = pg_temp.backwards(changes);
            update pathmirror.log_part set changes = pg_temp.backwards(changes), part = -1 - part;
            update pathmirror.log_part set part = part + log.parts
            from pathmirror.log where log.namespace_id = log_part.namespace_id and log.seq = log_part.seq
            """)
    }
}

/// A tree as rows, changed independently of order: removals are applied, then values, and a node that becomes empty
/// loses its priority.
private struct PlainRows: Equatable {
    private(set) var leaves: [Path: Node] = [:]
    private(set) var priorities: [Path: Node] = [:]

    init() {}

    init(_ root: Node) { add(root, at: .root) }

    var rows: [(Path, Node)] {
        leaves.sorted { "\($0.key)" < "\($1.key)" }.map { ($0.key, $0.value) }
            + priorities.sorted { "\($0.key)" < "\($1.key)" }.map { ($0.key.appending(.priority), $0.value) }
    }

    /// - Parameter isReplaced: Whether values will follow at the removed paths, so that nodes above keep priorities.
    mutating func apply(_ changes: [Change], isReplaced: Bool = false) {
        for change in changes where !change.path.namesPriority {
            leaves = leaves.filter { !change.path.contains($0.key) }
            priorities = priorities.filter { !change.path.contains($0.key) }
        }
        for change in changes where !change.path.namesPriority && !change.value.isNull {
            // A leaf on the path becomes a branch.
            leaves = leaves.filter { !$0.key.contains(change.path) }
            add(change.value, at: change.path)
        }
        if isReplaced { return }
        for change in changes where change.path.namesPriority {
            priorities[change.path.parent ?? .root] = change.value.isNull ? nil : change.value
        }
        let leaves = leaves
        priorities = priorities.filter { priority in leaves.contains { priority.key.contains($0.key) } }
    }

    private mutating func add(_ node: Node, at path: Path) {
        if !node.priority.isNull { priorities[path] = node.priority }
        guard case .branch(let branch) = node else {
            if !node.isNull { leaves[path] = node.withoutPriority }
            return
        }
        for entry in branch.children { add(entry.node, at: path.appending(entry.key)) }
    }
}

/// Generates entries in which order could matter: nodes with few children, priorities, moves.
private struct EntryGenerator {
    var tree: TreeGenerator
    private static let keys = ["a", "a b", "0", "1", "😀", "～", "\"\\"].map { Key($0) }

    init(seed: UInt64) { tree = TreeGenerator(seed: seed) }

    private mutating func path(_ depth: Int) -> Path {
        Path((0..<depth).map { _ in tree.random.pick(Self.keys) })
    }

    mutating func value(_ depth: Int) -> Node {
        let priority = tree.random.oneIn(3) ? scalar() : .null
        if depth == 0 || tree.random.oneIn(3) { return scalar().withPriority(priority) }
        let children = (0..<1 + tree.random.below(3)).map { _ in (tree.random.pick(Self.keys), value(depth - 1)) }
        return Node(children: children, priority: priority)
    }

    private mutating func scalar() -> Node {
        tree.random.oneIn(3) ? .string(tree.random.pick(["", "x", "é"])) : .int(Int64(tree.random.below(9)))
    }

    /// Returns a random path, mostly one with a value.
    mutating func location(_ rows: PlainRows) -> Path {
        guard !rows.leaves.isEmpty, !tree.random.oneIn(3) else { return path(1 + tree.random.below(3)) }
        let leaf = tree.random.pick(rows.leaves.keys.sorted { "\($0)" < "\($1)" })
        return leaf.prefix(tree.random.below(leaf.depth + 1))
    }

    mutating func next(_ rows: PlainRows) -> [Change] {
        var changes: [Change] = []
        for _ in 0..<1 + tree.random.below(6) {
            var location = location(rows)
            var value = tree.random.oneIn(3) ? Node.null : value(2)
            switch tree.random.below(4) {
            case 0:
                location = location.appending(.priority)
                value = tree.random.oneIn(4) ? .null : scalar()
            case 1 where !location.isRoot:
                // A sibling of a removed value.
                location = (location.parent ?? .root).appending(tree.random.pick(Self.keys))
            default: break
            }
            if location.isRoot { location = path(1) }
            guard !changes.contains(where: { $0.path.contains(location) || location.contains($0.path) }) else {
                continue
            }
            changes.append(Change(path: location, value: value))
        }
        return tree.random.shuffled(changes)
    }
}

extension SeededGenerator {
    fileprivate mutating func shuffled<Element>(_ elements: [Element]) -> [Element] {
        var result = elements
        for index in result.indices.dropFirst() { result.swapAt(index, below(index + 1)) }
        return result
    }
}
