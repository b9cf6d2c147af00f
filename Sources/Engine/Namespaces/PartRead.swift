public import Rules
import Runtime
import Synchronization
public import Tree

/// A namespace for one who wants to read a part of it.
public enum ReadableNamespace: Sendable {
    case whole(LiveNamespace)
    /// It is large and being loaded: nothing but what was asked for.
    case part(NamespacePart)
}

/// A part of a namespace that was read from the database, and the decision of the rules about the request. Only the rules were read if
/// they refuse the request whatever the tree holds.
public struct NamespacePart: Sendable {
    /// The entry as of which it is.
    public let seq: Int64
    public let rules: RulesVersion
    public let decision: Decision
    /// What is stored at the path; `.null` where the rules, or their indexes, let nobody have it.
    public let node: Node
}

/// One who wants to read a part of a namespace, from the tree or, while that is being loaded, from the database: whichever is there
/// first. Any thread.
public final class PartRead: Sendable {
    public typealias Completion = @Sendable (Result<ReadableNamespace, EngineError>) -> Void

    let path: Path
    let query: Query?
    let context: QueryContext
    let auth: AuthContext
    private let completion: Mutex<Completion?>

    /// - Parameters:
    ///   - context: the query as rules see it.
    ///   - completion: is called once, from any thread.
    public init(
        _ path: Path, query: Query?, context: QueryContext, auth: AuthContext, _ completion: @escaping Completion
    ) {
        self.path = path
        self.query = query
        self.context = context
        self.auth = auth
        self.completion = Mutex(completion)
    }

    /// False once it is answered.
    var isWaiting: Bool { completion.withLock { $0 != nil } }

    /// Answers it without a namespace.
    public func refuse(_ error: EngineError) { complete(.failure(error)) }

    /// Nobody waits for the answer any more.
    public func giveUp() {
        let forgotten = completion.withLock { completion in
            defer { completion = nil }
            return completion
        }
        withExtendedLifetime(forgotten) {}
    }

    func complete(_ result: Result<ReadableNamespace, EngineError>) {
        let completion = completion.withLock { completion in
            defer { completion = nil }
            return completion
        }
        completion?(result)
    }

    /// Refuses the read by the rules alone. Nil for an administrator, whom rules do not refuse.
    var earlyRefusal: EarlyRefusal? {
        guard !auth.isAdmin else { return nil }
        return EarlyRefusal { [self] rules, seq in
            let now = Clock.unixMilliseconds
            guard !rules.set.mayEverRead(path, query: context, auth: auth, now: now) else { return false }
            let decision = rules.set.mayRead(path, query: context, root: .null, auth: auth, now: now)
            complete(.success(.part(NamespacePart(seq: seq, rules: rules, decision: decision, node: .null))))
            return true
        }
    }

    /// The most bytes of a path that is looked up in the database.
    static let mostPathBytes = 1_900

    /// Whether the database could be asked for it alone.
    var isOfAPart: Bool {
        !path.isRoot && !path.namesPriority && path.description.utf8.count <= Self.mostPathBytes
    }
}
