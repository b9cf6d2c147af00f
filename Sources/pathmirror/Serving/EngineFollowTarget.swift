import Engine
import Follower
import LogStore
import Rules
import Tree

/// The namespace of an engine that a follower writes to.
final class EngineFollowTarget: FollowTarget {
    private let engine: Engine
    private let name: String

    init(_ engine: Engine, _ name: String) {
        self.engine = engine
        self.name = name
    }

    func submit(
        _ write: FollowWrite, fence: [UInt8], _ completion: @escaping @Sendable (FollowOutcome) -> Void
    ) {
        guard let made = Self.write(write, fence) else {
            return completion(.refused("its rules can't be evaluated"))
        }
        engine.withNamespace(name) { result in
            switch result {
            case .success(let namespace): namespace.submit(made, to: FollowSink(completion), token: 0)
            case .failure(let error): completion(.failed("\(error)"))
            }
        }
    }

    private static func write(_ write: FollowWrite, _ fence: [UInt8]) -> Write? {
        let action: Write.Action
        switch write.content {
        case .rules(let source):
            guard let rules = try? RuleSet(json: source) else { return nil }
            action = .rules(rules)
        case .changes(let changes):
            if changes.count == 1, let change = changes.first {
                action = .set(change.path, change.value)
            } else {
                action = .update(base: write.path, changes)
            }
        }
        // A difference may be as large as the tree. The follower waits for it.
        return Write(
            action, operation: write.operation, byteCount: write.byteCount, auth: .admin,
            mayBeOvertaken: write.operation == .resync, upstream: UpstreamMark(fence: fence, number: write.number))
    }

    func withState(_ completion: @escaping @Sendable (Result<FollowedState, FollowTargetError>) -> Void) {
        engine.withNamespace(name) { result in
            switch result {
            case .success(let namespace):
                namespace.withCurrentSnapshot { snapshot in
                    completion(
                        snapshot.map {
                            FollowedState(root: $0.root, rules: $0.rules.seq > 0 ? $0.rules.set.source : nil)
                        }.mapError { FollowTargetError("\($0)") })
                }
            case .failure(let error): completion(.failure(FollowTargetError("\(error)")))
            }
        }
    }

    func problem(ofRules source: [UInt8]) -> String? {
        do throws(RulesError) {
            _ = try RuleSet(json: source)
            return nil
        } catch {
            return "\(error)"
        }
    }
}

/// Passes the outcome of one write on.
private final class FollowSink: WriteSink {
    private let completion: @Sendable (FollowOutcome) -> Void

    init(_ completion: @escaping @Sendable (FollowOutcome) -> Void) { self.completion = completion }

    func complete(_ outcomes: [(token: UInt64, outcome: WriteOutcome)]) {
        for (_, outcome) in outcomes { completion(Self.outcome(outcome)) }
    }

    private static func outcome(_ outcome: WriteOutcome) -> FollowOutcome {
        switch outcome {
        case .committed(let seq, _): .committed(seq: seq)
        case .refused(let reason): .refused(reason)
        case .failed(let error): .failed("\(error)")
        // Administrators' writes have neither conditions nor limits.
        case .preconditionFailed, .denied, .tooLarge: .refused("\(outcome)")
        }
    }
}
