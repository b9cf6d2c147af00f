import Synchronization

/// Buckets of one limit by caller, in parts with a lock each, and what other gateways have let the same callers have.
final class LimitBuckets<Key: Hashable & Sendable>: Sendable {
    private struct Bucket: Sendable {
        var tokens: TokenBucket
        /// Without what others have reported; nil where there are no others.
        var own: TokenBucket?
        /// What the other gateways call it; nil where there is nobody to tell.
        let caller: LimitedCaller?
        /// Used here since the others were last told.
        var untold = 0.0
        /// It is among those that the others are to be told of.
        var isToBeTold = false
    }

    private struct Table: Sendable {
        var buckets: RecentTable<Key, Bucket>
        /// Who has used enough to tell the others of.
        var toTell: [Key] = []
    }

    private final class Part: Sendable {
        let table: Mutex<Table>

        init(capacity: Int) { table = Mutex(Table(buckets: RecentTable(capacity: capacity))) }
    }

    private let limit: RateLimit
    private let parts: [Part]
    /// Used elsewhere, and not taken from a bucket here.
    private let elsewhere: OthersUse
    private let name: (@Sendable (Key) -> LimitedCaller)?
    /// Less than this of a caller is not worth telling the others.
    private let worthTelling: Double
    /// So many callers of a part wait to be told of at most: those whose buckets were forgotten meanwhile stand there, too.
    private let mostToTell: Int

    /// - Parameter name: what the other gateways call a caller; nil where each counts for itself.
    init(_ limit: RateLimit, most: Int, name: (@Sendable (Key) -> LimitedCaller)? = nil) {
        self.limit = limit
        self.name = name
        worthTelling = max(1, limit.burst / 50)
        elsewhere = OthersUse(limit, most: most)
        let count = most >= 1_024 ? 16 : 1
        mostToTell = max(1, most / count)
        parts = (0..<count).map { _ in Part(capacity: most / count) }
    }

    /// Takes from a caller's bucket, or says in how many milliseconds it may be asked again.
    ///
    /// - Parameter ignoresOthers: whether only use at this gateway can refuse it.
    func take(_ amount: Double, of key: Key, ignoresOthers: Bool = false, _ nowMilliseconds: Int64) -> Int64? {
        part(of: key).table.withLock { table in
            let mayTell = table.toTell.count < mostToTell
            let (wait, isToBeTold) = table.buckets.with(key, new: newBucket(key, nowMilliseconds)) { bucket in
                take(amount, from: &bucket, ignoresOthers, mayTell: mayTell, nowMilliseconds)
            }
            if isToBeTold { table.toTell.append(key) }
            return wait
        }
    }

    /// Also says whether the caller has just become one of those to tell of.
    private func take(
        _ amount: Double, from bucket: inout Bucket, _ ignoresOthers: Bool, mayTell: Bool, _ now: Int64
    ) -> (Int64?, Bool) {
        if let caller = bucket.caller, let debt = elsewhere.take(caller) {
            bucket.tokens.owe(debt.amount, since: debt.since, limit)
        }
        let wait = Self.take(amount, from: &bucket, ignoresOthers, limit, now)
        guard wait == nil, bucket.caller != nil else { return (wait, false) }
        bucket.untold += amount
        guard mayTell, !bucket.isToBeTold, bucket.untold >= worthTelling else { return (nil, false) }
        bucket.isToBeTold = true
        return (nil, true)
    }

    private static func take(
        _ amount: Double, from bucket: inout Bucket, _ ignoresOthers: Bool, _ limit: RateLimit, _ now: Int64
    ) -> Int64? {
        guard ignoresOthers, bucket.own != nil else {
            let wait = bucket.tokens.take(amount, limit, nowMilliseconds: now)
            if wait == nil { bucket.own?.spend(amount, limit, nowMilliseconds: now) }
            return wait
        }
        let wait = bucket.own?.take(amount, limit, nowMilliseconds: now) ?? nil
        if wait == nil { bucket.tokens.spend(amount, limit, nowMilliseconds: now) }
        return wait
    }

    private func newBucket(_ key: Key, _ now: Int64) -> Bucket {
        let full = TokenBucket(limit, nowMilliseconds: now)
        return Bucket(tokens: full, own: name == nil ? nil : full, caller: name?(key))
    }

    private func part(of key: Key) -> Part { parts[Int(UInt(bitPattern: key.hashValue) % UInt(parts.count))] }

    // MARK: Other gateways

    /// What callers have used here that the others are to be told of, at most of so many; the others wait for the next time.
    func takeUntold(most: Int) -> [UseNotice.Amount] {
        var found: [UseNotice.Amount] = []
        for part in parts {
            part.table.withLock { table in
                while found.count < most, let key = table.toTell.popLast() {
                    table.buckets.withKnown(key) { bucket in
                        let whole = bucket.untold.rounded(.down)
                        bucket.isToBeTold = false
                        guard let caller = bucket.caller, whole >= 1 else { return }
                        bucket.untold -= whole
                        found.append(UseNotice.Amount(caller: caller, amount: Int(min(whole, 1e12))))
                    }
                }
            }
        }
        return found
    }

    /// Another gateway has let a caller have so much.
    func used(_ used: UseNotice.Amount, _ nowMilliseconds: Int64) {
        if name != nil { elsewhere.add(Double(used.amount), used.caller, nowMilliseconds) }
    }
}

/// What callers have used at other gateways, until it is taken from their buckets here.
private final class OthersUse: Sendable {
    struct Debt: Sendable {
        var amount: Double
        /// When the first of it was heard of.
        var since: Int64
    }

    /// What is heard of within so many milliseconds counts as heard of at once.
    private static let togetherMilliseconds: Int64 = 2_000

    private let limit: RateLimit
    private let debts: Mutex<RecentTable<LimitedCaller, Debt>>
    private let isEmpty = Atomic(true)

    init(_ limit: RateLimit, most: Int) {
        self.limit = limit
        debts = Mutex(RecentTable(capacity: most))
    }

    func add(_ amount: Double, _ caller: LimitedCaller, _ now: Int64) {
        isEmpty.store(false, ordering: .relaxed)
        debts.withLock { debts in
            debts.with(caller, new: Debt(amount: 0, since: now)) { debt in
                let age = now - debt.since
                if debt.amount == 0 || age > Self.togetherMilliseconds {
                    // Who asks for nothing here has a full bucket, which his limit fills up again.
                    debt.amount = max(0, debt.amount - Double(age) * limit.perSecond / 1_000)
                    debt.since = now
                }
                // More than a bucket can owe is not kept.
                debt.amount = min(debt.amount + amount, limit.burst + TokenBucket.deepestDebt(limit))
            }
        }
    }

    /// Nil where there is nothing; it is for the caller's bucket then, and gone here.
    func take(_ caller: LimitedCaller) -> Debt? {
        if isEmpty.load(ordering: .relaxed) { return nil }
        return debts.withLock { debts in
            debts.withKnown(caller) { debt in
                guard debt.amount > 0 else { return nil }
                defer { debt.amount = 0 }
                return debt
            } ?? nil
        }
    }
}
