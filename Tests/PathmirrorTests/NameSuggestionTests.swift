import TestSupport
import Testing

@testable import pathmirror

/// Checks that a mistyped name of a namespace, a mirror or a feed is answered with the nearest existing one.
@Suite struct NameSuggestionTests {
    @Test func namespaces() throws {
        try withCommands { database throws in
            try database.makeNamespace("shop")
            for arguments in [
                ["log", "ls", "--ns", "shpo"], ["log", "verify", "--ns", "shopp"], ["diff", "shop", "sho"],
                ["namespace", "show", "shpo"], ["namespace", "rm", "shopp"], ["mirror", "status", "--ns", "shopp"],
                ["mirror", "pause", "x", "--ns", "shopp"], ["feed", "ls", "--ns", "shopp"],
                ["feed", "show", "shopp/x"], ["retention", "ls", "--ns", "shopp"],
                ["replay", "feed", "shopp/x", "--from", "1"],
            ] {
                let run = try database.run(arguments)
                #expect(run.exitCode == (arguments[0] == "diff" ? 2 : 1), "\(arguments)")
                #expect(run.errors.hasSuffix(" Did you mean \"shop\"?\n"), "\(arguments): \(run.errors)")
            }
            #expect(try !database.failure("log", "ls", "--ns", "elsewhere").contains("Did you mean"))
        }
    }

    @Test func mirrors() throws {
        try MirrorCommandTests.withPosts { database, folder in
            #expect(try database.run(["mirror", "apply", folder.path + "/mirror.json", "--yes"]).exitCode == 0)
            for arguments in [
                ["mirror", "pause", "post"], ["mirror", "drop", "posst"], ["mirror", "errors", "psots"],
                ["mirror", "status", "post"], ["mirror", "export", "post"], ["mirror", "dbt", "post"],
                ["replay", "mirror", "post"],
            ] {
                let run = try database.run(arguments)
                #expect(run.exitCode == 1, "\(arguments)")
                #expect(
                    run.errors
                        == "pathmirror: There is no mirror \"\(arguments.last ?? "")\" in namespace \"default\". Did you mean \"posts\"?\n"
                )
            }
        }
    }

    @Test func feeds() throws {
        try withCommands { database throws in
            try database.makeNamespace("default")
            let folder = try ScratchFolder()
            let file = try folder.file("feed.json", #"{"name": "orders", "path": "/orders/{id}"}"#)
            try database.output("feed", "apply", file)
            for arguments in [
                ["feed", "show", "order"], ["feed", "status", "oders"], ["feed", "rm", "order", "--yes"],
            ] {
                let run = try database.run(arguments)
                #expect(run.exitCode == 1, "\(arguments)")
                #expect(run.errors.hasSuffix(" Did you mean \"orders\"?\n"), "\(arguments): \(run.errors)")
            }
        }
    }
}
