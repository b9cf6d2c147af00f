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
                == "9d5db0f1d3c2f1c774bdc85c5f105145af9d23cb5ec9236ee7f0e54047409279")
    }
}
