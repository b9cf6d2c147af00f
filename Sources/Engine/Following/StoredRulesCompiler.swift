import LogStore
import Rules
import Runtime

/// Compiles the rules that are stored with a namespace.
struct StoredRulesCompiler {
    private let defaultRules: RulesVersion
    private let shared: SharedRules
    private let stretches: StretchMeter
    private let logger: Logger

    /// - Parameters:
    ///   - defaultRules: of namespaces that have none of their own.
    ///   - shared: rules that were compiled before.
    init(_ defaultRules: RulesVersion, _ shared: SharedRules, _ stretches: StretchMeter, _ logger: Logger) {
        self.defaultRules = defaultRules
        self.shared = shared
        self.stretches = stretches
        self.logger = logger
    }

    /// Compiles the rules. Rules that do not compile refuse every request. A newer gateway may have stored them, or an older one
    /// that accepted expressions which are errors now. `doctor` names such rules.
    func version(_ stored: StoredRules?, of namespace: String) -> RulesVersion {
        guard let stored else { return defaultRules }
        if let known = shared.find(stored.source) {
            return RulesVersion(seq: stored.seq, set: known, isShared: true)
        }
        do throws(RulesError) {
            let compiled = stretches.measure("rules") {
                Result<RuleSet, RulesError> { () throws(RulesError) in try RuleSet(json: stored.source) }
            }
            let set = try compiled.get()
            shared.keep(set)
            return RulesVersion(seq: stored.seq, set: set)
        } catch {
            logger.error(
                "the stored rules can't be used; nobody is let in",
                [("namespace", namespace), ("seq", "\(stored.seq)"), ("error", "\(error)")])
            return RulesVersion(seq: stored.seq, set: .denyAll)
        }
    }
}
