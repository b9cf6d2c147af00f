import LogStore
import Rules
import Runtime
import Synchronization

/// Compiles the rules that are stored with a namespace.
struct StoredRulesCompiler {
    private let defaultRules: RulesVersion
    private let shared: SharedRules
    private let stallMeters: StallMeter
    private let logger: Logger

    /// - Parameters:
    ///   - defaultRules: the rules of namespaces without rules of their own.
    ///   - shared: rules compiled earlier.
    init(_ defaultRules: RulesVersion, _ shared: SharedRules, _ stallMeters: StallMeter, _ logger: Logger) {
        self.defaultRules = defaultRules
        self.shared = shared
        self.stallMeters = stallMeters
        self.logger = logger
    }

    /// Compiles the rules. Rules that do not compile reject every request.
    /// A newer gateway may have stored them, or an older gateway that accepted expressions which are errors now.
    /// `doctor` names such rules.
    func version(_ stored: StoredRules?, of namespace: String) -> RulesVersion {
        guard let stored, !stored.isCleared else { return defaultRules }
        if let known = shared.find(stored.source) {
            return RulesVersion(seq: stored.seq, set: known, isShared: true)
        }
        do throws(RulesError) {
            let compiled = stallMeters.measure("rules") {
                Result<RuleSet, RulesError> { () throws(RulesError) in try RuleSet(json: stored.source) }
            }
            let set = try compiled.get()
            shared.keep(set)
            return RulesVersion(seq: stored.seq, set: set)
        } catch {
            logger.error(
                "the stored rules can't be used; the gateway denies all access",
                [("namespace", namespace), ("seq", "\(stored.seq)"), ("error", "\(error)")])
            return RulesVersion(seq: stored.seq, set: .denyAll)
        }
    }
}

/// Recently compiled rules by their source. Many namespaces may have equal rules, which are then compiled once and held
/// in memory once. Bounded.
/// Any thread.
final class SharedRules: Sendable {
    private struct State: Sendable {
        var sets: [[UInt8]: RuleSet] = [:]
        var bytes = 0
    }
    private let state = Mutex(State())
    private static let maxBytes = 4 << 20

    init() {}

    func find(_ source: [UInt8]) -> RuleSet? { state.withLock { $0.sets[source] } }

    func keep(_ set: RuleSet) {
        // Rule sets removed here remain in use without being shared. They are freed outside the lock.
        let old = state.withLock { state -> State in
            var old = State()
            if state.bytes + set.source.count > Self.maxBytes { swap(&old, &state) }
            if state.sets.updateValue(set, forKey: set.source) == nil { state.bytes += set.source.count }
            return old
        }
        withExtendedLifetime(old) {}
    }
}
