import ClientCore
import Testing
import Tree

@Suite struct QuerySpecTests {
    @Test func aQueryThatOnlyOrdersLoadsAllData() {
        #expect(QuerySpec(path: .root, query: Query(index: .key)).loadsAllData)
        #expect(!QuerySpec(path: .root, query: Query(limit: .first(1))).loadsAllData)
    }
}
