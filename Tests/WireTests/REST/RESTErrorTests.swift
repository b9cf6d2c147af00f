import Testing
import Tree
import Wire

@Suite struct RESTErrorTests {
    @Test(arguments: [
        ("{\n  \"error\" : \"Permission denied\"\n}\n", "Permission denied"), ("{\"error\":\"a\\nb\"}", "a\nb"),
        ("{\"correctUrl\":\"https://x\",\"error\":\"elsewhere\"}", "elsewhere"),
        ("{\"error\":\"a\",\"error\":\"b\"}", "b"),
        // Without the protocol's format, the first line of the text is shown.
        (
            "append .json to your request URI to use the REST API.\n",
            "append .json to your request URI to use the REST API."
        ),
        ("", ""), ("<html>\r\n<body>", "<html>"), ("{\"error\":5}", "{\"error\":5}"), ("{\"error\":", "{\"error\":"),
        ("[1]", "[1]"),
    ]) func bodies(body: String, message: String) {
        #expect(RESTError(status: 418, body: Array(body.utf8)) == RESTError(418, message))
    }

    @Test func longBodiesAreCutOff() {
        let body = [UInt8](repeating: 0x78, count: 1 << 20)
        #expect(RESTError(status: 500, body: body).message.utf8.count == 16 * 1024)
    }

    @Test func textsOfTheProtocol() {
        let path = Path(splitting: "dinosaurs")
        #expect(
            RESTError.missingIndex(.child(Path(splitting: "height")), at: path)
                == RESTError(
                    400, "Index not defined, add \".indexOn\": \"height\", for path \"/dinosaurs\", to the rules"))
        let names = [Query.Index.key, .value, .priority, .child(Path(splitting: "a/b"))].map {
            RESTError.missingIndex($0, at: .root).message.split(separator: "\"").dropFirst(3).first.map(String.init)
        }
        #expect(names == [".key", ".value", ".priority", "a/b"])
        #expect(RESTError.permissionDenied == RESTError(401, "Permission denied"))
        #expect(RESTError.unparsableToken == RESTError(401, "Could not parse auth token."))
        #expect(RESTError.invalidPath == RESTError(400, "Invalid path: Invalid token in path"))
        #expect(RESTError.noData == RESTError(400, "Error: No data supplied."))
        #expect(RESTError.appendJSON.status == 404)
    }

    @Test(
        arguments: [
            (nil, false), ("", false), ("gzip", true), ("GZIP", true), ("x-gzip", true), ("deflate, gzip", true),
            ("deflate", false), ("gzip;q=0", false), ("gzip;q=0.0", false), ("gzip;q=0.001", true),
            ("gzip ; q=1", true),
            ("*", true), ("*;q=0", false), ("identity, *;q=0", false), ("gzip;q=0, *", false), ("*;q=0, gzip", true),
            ("gzipped", false), ("br;q=1.0, gzip;q=0.8, *;q=0.1", true), (" gzip ", true), ("\tgzip", true),
        ] as [(String?, Bool)]) func encodings(header: String?, isAllowed: Bool)
    {
        #expect(AcceptEncoding.allowsGzip(header) == isAllowed, "\(header ?? "nil")")
    }
}
