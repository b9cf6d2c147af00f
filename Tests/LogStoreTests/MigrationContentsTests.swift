import Crypto
import Testing

@testable import LogStore

/// Checks that no applied migration changes: gateways refuse a database whose migrations differ from theirs.
@Suite struct MigrationContentsTests {
    @Test func appliedMigrationsNeverChange() {
        // A new migration needs a new pair. The older migrations stay as they are, even their comments.
        let checksums = Migrations.all.map(\.checksum).joined()
        #expect(Migrations.all.count == 30)
        #expect(
            Hex.encode(Digest.sha256(Array(checksums.utf8)))
                == "63c40842259be2852e680da18fbd484f802dc565881779e67b81633f4ed6b474")
    }
}
