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
                let place = random.path(maxDepth: 2)
                let listener = RecordingListener()
                listener.started(namespace.subscribe(listener, at: place), at: place)
                listeners.append((listener, namespace, place))
                if random.random.oneIn(3) {
                    let (gone, namespace, place) = listeners.remove(at: random.random.below(listeners.count))
                    namespace.unsubscribe(gone, at: place)
                    #expect(gone.now.mistakes == [])
                }
            }
            for writer in writers { writer.join() }
            let stored = try StoredState(url)
            stored.check(equals: namespaces)
            for (listener, namespace, place) in listeners {
                #expect(namespace.snapshot.root[place] == listener.now.root[place])
                #expect(listener.now.mistakes == [])
                namespace.unsubscribe(listener, at: place)
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
                let place = random.writablePath(maxDepth: 4)
                index.add(listener, at: place)
                model.append((listener, place))
            case 2 where !model.isEmpty:
                let (listener, place) = model.remove(at: random.random.below(model.count))
                index.remove(listener, at: place)
                // A second removal, and a removal at a path without the listener, have no effect.
                index.remove(listener, at: place)
                index.remove(listener, at: place.appending(random.key()))
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
        for (listener, place) in model { index.remove(listener, at: place) }
        #expect(index.isEmpty)
    }

    /// Returns whether a change touches a listener: one path contains the other. A priority belongs to its node and is
    /// no child of it.
    private static func isTouched(_ listener: Path, by changed: Path) -> Bool {
        listener.contains(changed) || changed.contains(listener)
    }

    @Test func listenerAtSeveralPlacesOfOneWriteIsToldOnce() throws {
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
