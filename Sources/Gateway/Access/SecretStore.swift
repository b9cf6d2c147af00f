import Crypto
import Runtime
import Synchronization

/// Identifies a secret by its SHA-256, without containing the secret.
struct SecretID: Sendable, Hashable {
    fileprivate let digest: [UInt8]

    init(_ secret: [UInt8]) { digest = Digest.sha256(secret) }
}

/// The valid secrets, and the keys of service accounts. They may be replaced at any time, from any thread.
final class SecretStore: Sendable {
    struct Item: Sendable {
        let id: SecretID
        let secret: Secret<[UInt8]>

        init(_ secret: Secret<[UInt8]>) {
            self.secret = secret
            id = SecretID(secret.revealed())
        }
    }

    private struct State {
        var administrators: [Item] = []
        var databases: [String: [Item]] = [:]
        /// Nil until they are known.
        var serviceAccounts: ServiceAccountKeys?
    }
    private let state = Mutex(State())
    private let count = Atomic<Int>(0)

    /// Increases whenever secrets are replaced. Identities that were checked before then have to be checked again.
    var generation: Int { count.load(ordering: .acquiring) }

    func replace(administrators: [Secret<[UInt8]>], databases: [String: [Secret<[UInt8]>]]) {
        let (administrators, databases) = (
            administrators.map(Item.init), databases.mapValues { $0.map(Item.init) }
        )
        state.withLock { state in
            state.administrators = administrators
            state.databases = databases
        }
        count.wrappingAdd(1, ordering: .acquiringAndReleasing)
    }

    func replace(serviceAccounts: ServiceAccountKeys) {
        state.withLock { $0.serviceAccounts = serviceAccounts }
        count.wrappingAdd(1, ordering: .acquiringAndReleasing)
    }

    /// The keys of service accounts; nil until they are known.
    var serviceAccounts: ServiceAccountKeys? { state.withLock { $0.serviceAccounts } }

    var administrators: [Item] { state.withLock { $0.administrators } }

    func database(_ namespace: String) -> [Item] { state.withLock { $0.databases[namespace] ?? [] } }

    /// Returns the item with this secret. Compares with all items, so that the time reveals nothing.
    static func find(_ text: [UInt8], in items: [Item]) -> Item? {
        let id = SecretID(text)
        var found: Item?
        for item in items where Digest.isEqualInConstantTime(item.id.digest, id.digest) { found = item }
        return found
    }

    /// Returns whether the basis of an identity is still valid.
    func holds(_ basis: Identity.Basis) -> Bool {
        switch basis {
        case .itself: true
        case .administratorSecret(let id): administrators.contains { $0.id == id }
        case .databaseSecret(let id, let namespace): database(namespace).contains { $0.id == id }
        case .serviceAccount(let key, let grant): serviceAccounts?.holds(key, grant) ?? false
        }
    }
}
