import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks invariant 5: a listener sees a snapshot and then every later step that touches it, once and in order.
@Suite struct ListeningTests {
    /// Listeners come and go while several threads write through two engines.
    @Test(arguments: [1, 2] as [UInt64])
    func subscribingWhileOthersWrite(seed: UInt64) throws {
        try withEngines(2) { url, engines in
            let namespaces = try engines.map { try $0.namespace() }
            let writers = (0..<3).map { thread in
                let namespace = namespaces[thread % 2]
                return Thread(name: "writer") {
                    var generator = TreeGenerator(seed: seed &* 100 &+ UInt64(thread))
                    let sink = CollectingSink()
                    for token in 0..<300 as Range<UInt64> {
                        namespace.submit(generator.write(), to: sink, token: token)
                        if token % 4 == 0 { _ = sink.outcome(token) }
                    }
                    _ = sink.all(300)
                }
            }
            var random = TreeGenerator(seed: seed)
            var listeners: [(RecordingListener, LiveNamespace, Path)] = []
            for _ in 0..<200 {
                let namespace = random.random.pick(namespaces)
                let path = random.path(maxDepth: 2)
                let listener = RecordingListener()
                listener.started(namespace.subscribe(listener, at: path), at: path)
                listeners.append((listener, namespace, path))
                if random.random.oneIn(3) {
                    let (gone, namespace, path) = listeners.remove(at: random.random.below(listeners.count))
                    namespace.unsubscribe(gone, at: path)
                    #expect(gone.now.mistakes == [])
                }
            }
            for writer in writers { writer.join() }
            let stored = try StoredState(url)
            stored.check(equals: namespaces)
            for (listener, namespace, path) in listeners {
                #expect(namespace.snapshot.root[path] == listener.now.root[path])
                #expect(listener.now.mistakes == [])
                namespace.unsubscribe(listener, at: path)
            }
            #expect(namespaces.allSatisfy { $0.listenerCount == 0 })
        }
    }

    /// The index finds the same listeners as a loop over all of them.
    @Test(arguments: [1, 2, 3, 4, 5] as [UInt64])
    func indexAgainstModel(seed: UInt64) {
        var random = TreeGenerator(seed: seed)
        var index = ListenerIndex()
        var model: [(listener: RecordingListener, path: Path)] = []
        for _ in 0..<600 {
            switch random.random.below(5) {
            case 0, 1:
                let listener = RecordingListener()
                let path = random.writablePath(maxDepth: 4)
                index.add(listener, at: path)
                model.append((listener, path))
            case 2 where !model.isEmpty:
                let (listener, path) = model.remove(at: random.random.below(model.count))
                index.remove(listener, at: path)
                // A second removal, and a removal at a path without the listener, have no effect.
                index.remove(listener, at: path)
                index.remove(listener, at: path.appending(random.key()))
            default:
                let changed = random.writablePath(maxDepth: 4)
                var found: [ObjectIdentifier] = []
                index.forEachTouched(by: changed) { found.append(ObjectIdentifier($0)) }
                let expected = model.filter { Self.isTouched($0.path, by: changed) }.map {
                    ObjectIdentifier($0.listener)
                }
                #expect(Set(found) == Set(expected), "\(changed)")
                #expect(found.count == Set(found).count, "each is found once")
            }
            #expect(index.count == model.count)
        }
        for (listener, path) in model { index.remove(listener, at: path) }
        #expect(index.isEmpty)
    }

    /// Returns whether a change touches a listener: one path contains the other. A priority belongs to its node and is
    /// no child of it.
    private static func isTouched(_ listener: Path, by changed: Path) -> Bool {
        listener.contains(changed) || changed.contains(listener)
    }

    @Test func aListenerAtSeveralPathsOfOneWriteIsNotifiedOnce() throws {
        try withEngines { _, engines in
            let namespace = try engines[0].namespace()
            let listener = RecordingListener()
            listener.started(namespace.subscribe(listener, at: .root), at: .root)
            _ = namespace.write(.update("", [("a", .int(1)), ("b", .int(2)), ("c", .int(3))]))
            #expect(listener.now.seqs == [1])
        }
    }

    /// Listeners are notified before the writer is answered.
    @Test func dataComesBeforeTheAcknowledgement() throws {
        try withEngines { _, engines in
            let namespace = try engines[0].namespace()
            let listener = RecordingListener()
            listener.started(namespace.subscribe(listener, at: .root), at: .root)
            for seq in 1...50 as ClosedRange<Int64> {
                #expect(namespace.write(.set("x", .int(seq)))?.committedSeq == seq)
                #expect(listener.now.seq == seq)
            }
        }
    }
}
