import Testing

@testable import pathmirror

/// Checks that mirrors of several namespaces coexist, and that proposals for a namespace are applied to it.
@Suite struct MirrorNamespaceTests {
    /// A mirror's default table does not depend on its namespace: the error explains how to choose another table.
    @Test func twoNamespacesWithOneName() throws {
        try MirrorCommandTests.withPosts { database, folder in
            _ = try database.output("mirror", "apply", folder.path + "/mirror.json", "--yes")
            try database.makeNamespace("my-shop")
            let said = try database.failure(
                "mirror", "apply", folder.path + "/mirror.json", "--ns", "my-shop", "--yes")
            #expect(
                said
                    == #"pathmirror: mirror.posts is the table of mirror "posts" of namespace "default". Give mirror "posts" of namespace "my-shop" another one in its definition, such as "table": "mirror.my_shop_posts"."#
                    + "\n", "\(said)")
            for table in ["mirror.my_shop_posts", "my_shop.posts"] {
                let own = MirrorCommandTests.definition.replacing(
                    #""rest": "rest""#, with: #""table": "\#(table)", "rest": "rest""#)
                try folder.file("own.json", own)
                _ = try database.output("mirror", "apply", folder.path + "/own.json", "--ns", "my-shop", "--yes")
                #expect(try database.value("select to_regclass('\(table)')::text") == table)
            }
        }
    }

    @Test func inferringInANamespace() throws {
        try withCommands { database throws in
            let folder = try ScratchFolder()
            try database.makeNamespace("shop")
            try database.set("/posts/a", #"{"author": "ada"}"#, "shop")
            let file = folder.path + "/posts.json"
            _ = try database.output("mirror", "infer", "/posts/{id}", "--ns", "shop", "--output", file)
            #expect(try JSONText(reading: try folder.read("posts.json"))["namespace"] == "shop")
            let definition = try database.json("mirror", "infer", "/posts/{id}", "--ns", "shop").first?["definition"]
            #expect(definition?["namespace"] == "shop")
            // The file contains the namespace, so `apply` needs no --ns.
            #expect(try database.json("mirror", "apply", file, "--yes").first?["namespace"] == "shop")
        }
    }

    @Test func statusOfNoMirrors() throws {
        try MirrorCommandTests.withPosts { database, folder in
            let none = try database.run(["mirror", "status"])
            #expect(none.exitCode == 0 && none.output.isEmpty && none.errors == "There are no mirrors.\n")
            _ = try database.output("mirror", "apply", folder.path + "/mirror.json", "--yes")
            try database.makeNamespace("shop")
            let status = try database.run(["mirror", "status", "--ns", "shop"])
            #expect(status.exitCode == 0 && status.output.isEmpty)
            #expect(status.errors == "Namespace \"shop\" has no mirrors.\n")
            let json = try database.run(["mirror", "status", "--ns", "shop", "--json"])
            #expect(json.exitCode == 0 && json.output.isEmpty && json.errors.isEmpty)
        }
    }
}
