import Synchronization

/// Sessions of tokens that were verified, by the tokens' hashes. Bounded: of two halves the older goes when the newer is
/// full, so what is used stays.
final class IdentityCache: Sendable {
    private struct Entry {
        let identity: Identity
        /// The key set's version when it was verified; keys that the issuer withdrew verify nothing more.
        let version: Int
    }

    private struct State {
        var new: [[UInt8]: Entry] = [:]
        var old: [[UInt8]: Entry] = [:]
    }
    private let state = Mutex(State())
    private let capacity: Int

    init(capacity: Int) { self.capacity = capacity }

    func identity(_ digest: [UInt8], version: Int, now: Int64) -> Identity? {
        state.withLock { state in
            if let entry = state.new[digest] { return Self.valid(entry, version, now) }
            guard let entry = state.old.removeValue(forKey: digest), let identity = Self.valid(entry, version, now)
            else {
                return nil
            }
            insert(entry, digest, &state)
            return identity
        }
    }

    func insert(_ identity: Identity, _ digest: [UInt8], version: Int) {
        state.withLock { insert(Entry(identity: identity, version: version), digest, &$0) }
    }

    private static func valid(_ entry: Entry, _ version: Int, _ now: Int64) -> Identity? {
        guard entry.version == version, let end = entry.identity.expiresAt, end > now else { return nil }
        return entry.identity
    }

    private func insert(_ entry: Entry, _ digest: [UInt8], _ state: inout State) {
        if state.new.count >= capacity / 2 {
            state.old = state.new
            state.new.removeAll(keepingCapacity: true)
        }
        state.new[digest] = entry
    }
}
