import Synchronization
import Tree

/// Reads of parts of namespaces that are being loaded.
extension NamespaceTable {
    /// What is known of the parts of a namespace that is being loaded.
    struct Parts: Sendable {
        /// The namespace that is large, as it has turned out; nil until then.
        var namespace: Int64?
        /// Those who would take a part.
        var waiting: [PartRead] = []
        /// The newest entry as of which a part was answered.
        var newest: Int64 = 0
        /// The load is as good as done: nobody gets a part any more.
        var areEnding = false
        /// Paths at which there was too much. No more than so many are remembered.
        var tooLarge: Set<Path> = []
        static let mostTooLarge = 1_000

        /// What is known is of a namespace that is not meant any more. Those who wait go on waiting.
        mutating func forget() { self = Parts(waiting: waiting) }
    }

    /// Has a read wait for a part, should the namespace turn out to be large. Its id where it has already.
    func wait(for read: PartRead, of name: String) -> Int64? {
        withParts(of: name) { parts -> Int64? in
            guard let namespace = parts.namespace else {
                parts.waiting.append(read)
                return nil
            }
            return parts.areEnding || parts.tooLarge.contains(read.path) ? nil : namespace
        } ?? nil
    }

    /// A namespace that is being loaded is large: those who would take a part.
    func turnedLarge(_ name: String, _ namespace: Int64) -> [PartRead] {
        withParts(of: name) { parts in
            parts.namespace = namespace
            parts.areEnding = false
            defer { parts.waiting = [] }
            return parts.waiting
        } ?? []
    }

    /// Whether parts of a namespace are answered.
    func readsParts(of name: String, _ namespace: Int64) -> Bool {
        withParts(of: name) { $0.namespace == namespace && !$0.areEnding } ?? false
    }

    /// The same, and a part as of this entry will be.
    func answersPart(of name: String, _ namespace: Int64, at seq: Int64) -> Bool {
        withParts(of: name) { parts in
            guard parts.namespace == namespace, !parts.areEnding else { return false }
            parts.newest = max(parts.newest, seq)
            return true
        } ?? false
    }

    /// Nobody gets a part any more. The newest entry as of which somebody did: the tree has to have it before anybody gets that.
    func endParts(of name: String) -> Int64 {
        withParts(of: name) { parts in
            parts.areEnding = true
            return parts.newest
        } ?? 0
    }

    func partIsTooLarge(at path: Path, of name: String) {
        withParts(of: name) { parts in
            if parts.tooLarge.count < Parts.mostTooLarge { parts.tooLarge.insert(path) }
        }
    }

    @discardableResult
    private func withParts<Result>(of name: String, _ body: (inout Parts) -> Result) -> Result? {
        state.withLock { state in
            guard case .loading(var loading) = state.slots[name] else { return nil }
            // Taken out first: with another reference to them the lists would be copied for each who asks.
            state.slots[name] = .loading(Loading())
            defer { state.slots[name] = .loading(loading) }
            return body(&loading.parts)
        }
    }
}
