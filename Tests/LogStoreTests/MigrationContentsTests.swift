import Crypto
import Testing

@testable import LogStore

/// Checks that no applied migration changes: gateways refuse a database whose migrations differ from theirs.
@Suite struct MigrationContentsTests {
    @Test func appliedMigrationsNeverChange() {
        // A new migration needs a new pair. The older migrations stay as they are, even their comments.
        let checksums = Migrations.all.map(\.checksum).joined()
        #expect(Migrations.all.count == 28)
        #expect(
            Hex.encode(Digest.sha256(Array(checksums.utf8)))
                == "cb376a0bc78bddf28bd1d554e042de420bd6dec0019dbe837852b7832fc71237")
    }
}
