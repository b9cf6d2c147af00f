internal import Crypto
import Runtime
internal import Tree

/// Decides when a follower submits the upstream's rules. A value.
///
/// The rules are compared with those of the namespace, so that rules that were lost after a refused message, or changed while no
/// gateway ran, are submitted again. Until the namespace has had the upstream's tree once, data of its own stays closed to clients:
/// the upstream's rules were not made for it.
struct RulesAdoption: Sendable {
    /// Rules that only administrators pass.
    static let closed = Array(#"{"rules": {".read": false, ".write": false}}"#.utf8)
    /// How often the same rules are submitted after one read of the upstream's rules.
    private static let mostAttempts = 3

    /// The reason why the upstream's rules are not in force, with the remedy.
    var problem: String?
    /// The digest of the upstream's rules that the namespace has; nil if it has none yet.
    private(set) var digest: String?
    /// The time at which the namespace's rules are compared again, after a failure.
    private(set) var retryAt: Milliseconds?
    private let isUsed: Bool
    private var source: [UInt8]?
    private var isAsking = false
    private var asksAgain = false
    /// Whether the namespace's data is the upstream's.
    private var hasUpstreamsData: Bool
    private var isClosed = false
    private var hasSubmitted = false
    private var attempts = 0
    private var rulesEnded: Int64 = 0

    /// - Parameters:
    ///   - isUsed: whether the namespace has the upstream's rules, and none of its own.
    ///   - hasAdopted: whether an earlier follower has adopted the upstream's rules.
    init(isUsed: Bool, hasAdopted: Bool) {
        self.isUsed = isUsed
        hasUpstreamsData = hasAdopted
        hasSubmitted = hasAdopted
    }

    /// Whether no rules have been submitted yet. The upstream's data is not loaded before that: until then the rules of other
    /// namespaces would decide who reads it.
    var isAwaited: Bool { isUsed && !hasSubmitted }

    /// Accepts the upstream's rules, as they were read.
    mutating func found(_ source: [UInt8]) {
        self.source = source
        attempts = 0
    }

    /// Accepts that the namespace has the upstream's tree. Returns whether its rules must be compared again.
    mutating func synchronized() -> Bool {
        guard isUsed, !hasUpstreamsData else { return false }
        hasUpstreamsData = true
        return isClosed
    }

    /// Accepts the number of submitted rules that were committed or lost. Returns whether it has changed.
    mutating func ended(_ count: Int64) -> Bool {
        defer { rulesEnded = count }
        return isUsed && count != rulesEnded
    }

    /// Returns whether the namespace's state has to be read now.
    mutating func asks() -> Bool {
        retryAt = nil
        guard isUsed, source != nil else { return false }
        asksAgain = isAsking
        defer { isAsking = true }
        return !isAsking
    }

    /// Accepts that the namespace's state is unknown.
    mutating func failed(retryAt time: Milliseconds) {
        isAsking = false
        retryAt = time
    }

    /// Returns the rules that the namespace lacks.
    ///
    /// - Parameters:
    ///   - isInFlight: whether submitted rules are not committed yet. The state is read again after them.
    ///   - reason: returns the reason why rules can't be evaluated here.
    mutating func rulesToSubmit(
        for state: FollowedState, isInFlight: Bool, problem reason: ([UInt8]) -> String?
    ) -> [UInt8]? {
        isAsking = false
        guard let source, !isInFlight else { return nil }
        if asksAgain { retryAt = 0 }
        asksAgain = false
        let reason = reason(source)?.split(whereSeparator: \.isNewline).joined(separator: " ")
        problem = reason.map {
            "The upstream's rules can't be evaluated here, so only administrators can read (\($0)). Change them, or run follow rm "
                + "and follow add with --keep-rules and --replace, and set rules of your own."
        }
        if state.root.isNull { hasUpstreamsData = true }
        isClosed = !hasUpstreamsData
        // Rules that can't be evaluated must not let anyone read more than the upstream does.
        let wanted = isClosed || problem != nil ? Self.closed : source
        hasSubmitted = true
        guard state.rules != wanted else {
            if !isClosed { digest = String(decoding: Base64.encode(Digest.sha1(source)), as: UTF8.self) }
            return nil
        }
        guard attempts < Self.mostAttempts else { return nil }
        attempts += 1
        return wanted
    }
}
