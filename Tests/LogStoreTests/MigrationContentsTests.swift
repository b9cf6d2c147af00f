import Crypto
import Testing

@testable import LogStore

/// Checks that no applied migration changes: gateways refuse a database whose migrations differ from theirs.
@Suite struct MigrationContentsTests {
    @Test func appliedMigrationsNeverChange() {
        // A new migration needs a new pair. The older migrations stay as they are, even their comments.
        let checksums = Migrations.all.map(\.checksum).joined()
        #expect(Migrations.all.count == 29)
        #expect(
            Hex.encode(Digest.sha256(Array(checksums.utf8)))
                == "425e59f166f41a1378cc3645915459e287e61bd1558112d50902d35ade8392e7")
    }
}
