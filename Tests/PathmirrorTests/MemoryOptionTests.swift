import Engine
import Testing

@testable import pathmirror

/// Checks the detected memory, and the part of it that trees may use.
@Suite struct MemoryOptionTests {
    @Test func theOption() throws {
        #expect(try ServiceOptionsTests.options(["--tree-memory", "2GiB"]).engine.treeMemoryBytes == 2 << 30)
        let standard = try ServiceOptionsTests.options([]).engine.treeMemoryBytes
        #expect(standard == MachineMemory.bytes / 2 && standard > 1 << 20)
        for text in ["", "x", "1023KiB", "-5", "2000000000"] {
            #expect(
                ServiceOptionsTests.message(["--tree-memory", text])
                    == "--tree-memory must be a size such as 64MiB or 4GiB, of at least 1MiB.")
        }
    }

    @Test func thePageFile() throws {
        let standard = try ServiceOptionsTests.options([]).pages
        #expect(standard.directory == "/var/tmp" && standard.isStandard)
        let named = try ServiceOptionsTests.options(["--page-directory", "/srv/x"]).pages
        #expect(named.directory == "/srv/x" && !named.isStandard)
        let none = try ServiceOptionsTests.options(["--page-directory", "none"])
        #expect(try none.makePageFile() == nil)
        // Four times this value overflows.
        let vast = try ServiceOptionsTests.options(["--tree-memory", "8000000TiB", "--page-directory", "/tmp"])
        #expect(try vast.makePageFile() != nil)
    }

    private static func limit(_ files: [String: String]) -> Int? { MachineMemory.groupLimit { files[$0] } }

    @Test func theLowestLimitAboveHolds() {
        let files = [
            "/proc/self/cgroup": "0::/a/b\n", "/sys/fs/cgroup/memory.max": "9000\n",
            "/sys/fs/cgroup/a/memory.max": "5000\n",
            "/sys/fs/cgroup/a/b/memory.max": "max\n",
        ]
        #expect(Self.limit(files) == 5_000)
    }

    @Test func version1() {
        let files = [
            "/proc/self/cgroup": "12:cpu,cpuacct:/x\n5:memory:/c\n1:name=systemd:/y\n",
            "/sys/fs/cgroup/memory/c/memory.limit_in_bytes": "7000\n",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        ]
        #expect(Self.limit(files) == 7_000)
    }

    @Test func noLimit() {
        #expect(Self.limit([:]) == nil)
        #expect(Self.limit(["/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "max"]) == nil)
        #expect(Self.limit(["/proc/self/cgroup": "nonsense\n:::\n0::\n"]) == nil)
    }
}
