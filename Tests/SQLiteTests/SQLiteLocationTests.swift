import SQLite
import Testing

@Suite struct SQLiteLocationTests {
    @Test func filesDiffer() { #expect(SQLiteLocation.file("a") != .file("b")) }
}
