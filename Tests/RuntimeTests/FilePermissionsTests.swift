import Runtime
import Testing

/// Checks whether a file is accessible to its owner only.
@Suite struct FilePermissionsTests {
    @Test(arguments: [0o600, 0o400, 0o700, 0o711, 0o100600, 0o000]) func modesForOne(_ mode: UInt32) {
        #expect(!FilePermissions(mode: mode, owner: 0).areForOthers)
    }

    @Test(arguments: [0o644, 0o640, 0o604, 0o620, 0o602, 0o666, 0o100444]) func modesForMore(_ mode: UInt32) {
        #expect(FilePermissions(mode: mode, owner: 0).areForOthers)
    }

    @Test func modesAsTheyAreWritten() {
        func text(_ mode: UInt32) -> String { FilePermissions(mode: mode, owner: 0).modeText }
        #expect(text(0o100644) == "0644" && text(0o4) == "0004" && text(0) == "0000" && text(0o104755) == "04755")
    }

    @Test func whatIsNoFile() {
        #expect(FilePermissions(ofFile: "/dev/null") == nil)
        #expect(FilePermissions(ofFile: "/nothing/there") == nil)
        #expect(FilePermissions(ofFile: "/") == nil)
    }
}
