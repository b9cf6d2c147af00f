/// How long rules may run. A step is one operation of a compiled expression, some ten nanoseconds, or a quarter of a
/// kilobyte of text gone over.
public struct RuleLimits: Sendable, Equatable {
    /// Steps that one expression may take (default 100,000). One that needs more has no value: the rule counts as false.
    public var maxStepsPerRule: Int
    /// Steps that all expressions of one read or write may take together (default 20,000,000).
    public var maxStepsPerOperation: Int

    public init(maxStepsPerRule: Int = 100_000, maxStepsPerOperation: Int = 20_000_000) {
        self.maxStepsPerRule = maxStepsPerRule
        self.maxStepsPerOperation = maxStepsPerOperation
    }
}
