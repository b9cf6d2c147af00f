public import Runtime

/// The rights of a service account.
public struct ServiceAccountGrant: Sendable, Hashable {
    public enum Role: String, Sendable, CaseIterable {
        /// Reads and writes everything, and administers the namespaces.
        case admin
        /// Reads everything and changes nothing.
        case viewer
    }

    public let name: String
    public let role: Role
    /// The namespaces that the account may use; nil for all.
    public let namespaces: [String]?

    public init(name: String, role: Role, namespaces: [String]?) {
        self.name = name
        self.role = role
        self.namespaces = namespaces
    }

    /// Returns whether the account may use a namespace.
    public func includes(_ namespace: String) -> Bool { namespaces?.contains(namespace) ?? true }

    /// Returns whether a name is valid: 1 to 63 of a to z, 0 to 9 and `-`, beginning with a letter.
    public static func isName(_ name: String) -> Bool {
        (1...63).contains(name.utf8.count) && name.utf8.first.map { (0x61...0x7A).contains($0) } == true
            && name.utf8.allSatisfy { (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x2D }
    }
}

/// A service account as stored.
public struct ServiceAccountRecord: Sendable, Equatable {
    public struct Key: Sendable, Equatable {
        /// Random; 40 hex digits.
        public let id: String
        /// A SubjectPublicKeyInfo in DER.
        public let publicKey: [UInt8]
        /// Milliseconds since 1970.
        public let createdAt: Int64
        /// The time from which the key is invalid, in milliseconds since 1970; nil for no end.
        public let endsAt: Int64?

        public init(id: String, publicKey: [UInt8], createdAt: Int64, endsAt: Int64?) {
            self.id = id
            self.publicKey = publicKey
            self.createdAt = createdAt
            self.endsAt = endsAt
        }
    }

    /// Maximum number of accounts of a database.
    public static let most = 1_000

    /// The account's identity: a UUID's text.
    public let uid: String
    public let grant: ServiceAccountGrant
    /// The address of the token endpoint, as in the account's file.
    public let tokenURI: String
    /// Milliseconds since 1970.
    public let createdAt: Int64
    /// The newest key first.
    public let keys: [Key]

    public init(uid: String, grant: ServiceAccountGrant, tokenURI: String, createdAt: Int64, keys: [Key]) {
        self.uid = uid
        self.grant = grant
        self.tokenURI = tokenURI
        self.createdAt = createdAt
        self.keys = keys
    }

    /// The email address that identifies the account in its file.
    public var email: String { Self.email(of: grant.name) }

    /// Returns the email address of the account with a name. No mail is sent to it.
    public static func email(of name: String) -> String { "\(name)@service-account.pathmirror" }
}

/// All service accounts of a database, and the key of the access tokens that its gateways issue.
public struct ServiceAccounts: Sendable {
    public let tokenKey: Secret<[UInt8]>
    public let records: [ServiceAccountRecord]

    public init(tokenKey: Secret<[UInt8]>, records: [ServiceAccountRecord]) {
        self.tokenKey = tokenKey
        self.records = records
    }

    /// Returns the accounts with only those keys that are valid at a time in milliseconds since 1970.
    func valid(at now: Int64) -> ServiceAccounts {
        ServiceAccounts(
            tokenKey: tokenKey,
            records: records.map { record in
                ServiceAccountRecord(
                    uid: record.uid, grant: record.grant, tokenURI: record.tokenURI, createdAt: record.createdAt,
                    keys: record.keys.filter { key in key.endsAt.map { $0 > now } ?? true })
            })
    }
}
