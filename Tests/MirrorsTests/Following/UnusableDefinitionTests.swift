import JSONText
import LogStore
import TestSupport
import Testing

@testable import Mirrors

/// Checks that a stored definition that this version cannot read, or whose filter no longer compiles, breaks only its
/// own mirror.
@Suite struct UnusableDefinitionTests {
    private static let good = #"{"name": "other", "path": "/others/{id}", "columns": {"sku": "text"}}"#
    private static let former = #"""
        {"name": "inch", "path": "/parts/{id}", "filter": "data.child('sku').val() != null", "columns": {"sku": "text"}}
        """#

    /// Changes the mirror's stored definition, as another version might have stored it.
    private func store(_ bench: MirrorBench, _ member: String, _ value: String) throws {
        for table in ["mirror", "mirror_cursor"] {
            try bench.script(
                """
                update pathmirror.\(table) set definition
                    = jsonb_set(definition::jsonb, '{\(member)}', $json$\(value)$json$::jsonb)::json
                where definition ->> 'name' = 'inch'
                """)
        }
    }

    @Test(arguments: [
        ("filter", #""data.child('sku').val().matches(/5\"/)""#, "filter: "),
        ("filter", #""data.child('sku').val().matches(/(a|)/)""#, "filter: "),
        ("of a newer version", "true", "of a newer version: is unknown here"),
    ]) func oneMirrorIsBrokenAndTheOthersRun(member: String, value: String, message: String) throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.good)
            try bench.apply(Self.former)
            try store(bench, member, value)
            #expect(try bench.operators.mirrors().map(\.name).sorted() == ["inch", "other"])
            try bench.following { _ in
                try bench.set("/parts/p1", #"{"sku": "x"}"#)
                try bench.set("/others/o1", #"{"sku": "y"}"#)
                try bench.catchUp("other")
                let isSeen = try eventually { try bench.status("inch").state == "broken" }
                #expect(try isSeen && bench.status("inch").message?.hasPrefix(message) == true)
                #expect(try bench.rows("select sku from mirror.other") == [["y"]])
                // The mirror's existing rows are unchanged.
                #expect(try bench.rows("select sku from mirror.inch").isEmpty)
                #expect(throws: MirrorError.self) { try bench.operators.rebuild(try bench.mirror("inch")) }
                try bench.apply(Self.former)
                try bench.catchUp("inch", "other")
                #expect(try bench.rows("select sku from mirror.inch") == [["x"]])
            }
            #expect(try bench.problems().isEmpty)
        }
    }

    @Test func brokenOnesCanBeDropped() throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.good)
            try bench.apply(Self.former)
            try store(bench, "filter", #""data.child('sku').val().matches(/5\"/)""#)
            try bench.operators.drop(try bench.mirror("inch"))
            #expect(try bench.operators.mirrors().map(\.name) == ["other"])
            #expect(try bench.rows("select to_regclass('mirror.inch')") == [[nil]])
        }
    }

    @Test func whatCanBeReadIsKept() throws {
        let stored = try MirrorDefinition(
            stored: Array(
                #"{"name": "m", "path": "/a/{k}", "filter": "data.matches(", "columns": {"x": "bigint"}, "y": 1}"#.utf8)
        )
        #expect(stored.name == "m" && stored.columns.map(\.name) == ["x"] && stored.filter?.text == "data.matches(")
        #expect(stored.mistake?.contains("filter: ") == true && stored.mistake?.contains("y: is unknown here") == true)
        #expect(throws: MirrorError.self) { try stored.checkUsable() }
        #expect(throws: DefinitionError.self) { try MirrorDefinition(stored: Array("{}".utf8)) }
        let whole = try MirrorDefinition(stored: Array(Self.former.utf8))
        #expect(whole.mistake == nil)
    }
}
