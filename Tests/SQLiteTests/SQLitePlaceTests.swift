import SQLite
import Testing

@Suite struct SQLitePlaceTests {
    @Test func filesDiffer() { #expect(SQLitePlace.file("a") != .file("b")) }
}
