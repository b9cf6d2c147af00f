import Compression
import Engine
import Gateway
import TestSupport
import Testing
import Tree

/// Tests of the gateway's answers, over a real server.
@Suite struct AnswersTests {
    @Test func writeAndRead() throws {
        try withGateway { gateway in
            let client = try WebClient(gateway.port)
            let put = try client.request("PUT", "/a.json", body: "{\"b\":1}")
            #expect(put.status == 200)
            #expect(put.text == "{\"b\":1}")
            #expect(put.headers["x-pathmirror-seq"] == "1")
            #expect(try client.request("GET", "/a/b.json").text == "1")
            #expect(try client.request("DELETE", "/a.json").text == "null")
            #expect(try client.request("GET", "/.json").text == "null")
        }
    }

    @Test func etagsAndConditions() throws {
        try withGateway { gateway in
            let client = try WebClient(gateway.port)
            let none = try client.request("GET", "/n.json", ["X-Firebase-ETag": "true"])
            #expect(none.headers["etag"] == "null_etag")
            #expect(try client.request("PUT", "/n.json", ["if-match": "null_etag"], body: "1").status == 200)
            let failed = try client.request("PUT", "/n.json", ["if-match": "null_etag"], body: "2")
            #expect(failed.status == 412)
            #expect(failed.text == "1")
            let etag = try #require(failed.headers["etag"])
            #expect(try client.request("PUT", "/n.json", ["if-match": etag], body: "2").status == 200)
            let now = try #require(try client.request("GET", "/n.json", ["X-Firebase-ETag": "true"]).headers["etag"])
            #expect(try client.request("GET", "/n.json", ["if-none-match": now]).status == 304)
        }
    }

    @Test func callbacksAndGzip() throws {
        try withGateway {
            $0.gzipFromBytes = 100
        } _: { gateway in
            let client = try WebClient(gateway.port)
            let long = "\"" + String(repeating: "x", count: 500) + "\\u2028</script>\""
            _ = try client.request("PUT", "/a.json", body: long)
            let compressed = try client.request("GET", "/a.json", ["Accept-Encoding": "gzip"])
            #expect(compressed.headers["content-encoding"] == "gzip")
            #expect(compressed.headers["vary"] == "Accept-Encoding")
            let decompressed = try Gzip.decompress(compressed.body, limit: 10_000)
            #expect(try JSONParser.parse(String(decoding: decompressed, as: UTF8.self)) == JSONParser.parse(long))
            let script = try client.request("GET", "/a.json?callback=f.g")
            #expect(script.headers["content-type"]?.hasPrefix("application/javascript") == true)
            #expect(script.headers["x-content-type-options"] == "nosniff")
            #expect(script.text.hasPrefix("/**/f.g("))
            #expect(script.text.hasSuffix(");"))
            #expect(!script.text.unicodeScalars.contains("\u{2028}"))
        }
    }

    @Test func credentials() throws {
        try withGateway { gateway in
            let client = try WebClient(gateway.port)
            #expect(try client.request("GET", "/.settings/rules.json", ["Authorization": "Bearer owner"]).status == 200)
            #expect(try client.request("GET", "/.settings/rules.json").status == 401)
            #expect(try client.request("GET", "/a.json?auth=nonsense").status == 401)
            #expect(try client.request("GET", "/a.json", ["Authorization": "Bearer nonsense"]).status == 401)
        }
    }

    @Test func readiness() throws {
        try withDatabase { url in
            let proxy = try CuttingProxy(url)
            defer { proxy.stop() }
            let gateway = try TestGateway(proxy.url)
            defer { gateway.stop() }
            let client = try WebClient(gateway.port)
            #expect(try eventually { try client.request("GET", "/.health/ready").status == 200 })
            _ = try client.request("PUT", "/a.json", body: "1")
            proxy.setDown(true)
            #expect(try eventually { try client.request("GET", "/.health/ready").status == 503 })
            #expect(try client.request("GET", "/.health/ready").text.contains("\"stale\":true"))
            #expect(try client.request("GET", "/.health/live").status == 200)
            #expect(try client.request("GET", "/a.json").text == "1")
            let refused = try client.request("PUT", "/a.json", body: "2")
            #expect(refused.status == 503)
            #expect(refused.headers["retry-after"] != nil)
            proxy.setDown(false)
            #expect(try eventually { try client.request("GET", "/.health/ready").status == 200 })
            #expect(try eventually { try client.request("PUT", "/a.json", body: "3").status == 200 })
        }
    }

    /// Checks that each line of the metrics page is a comment or a sample, and that each sample belongs to a family
    /// that was announced once.
    @Test func metrics() throws {
        try withGateway { gateway in
            let client = try WebClient(gateway.port)
            _ = try client.request("PUT", "/a.json", body: "1")
            let text = try client.request("GET", "/.metrics").text
            var types: [String: String] = [:]
            for line in text.split(separator: "\n") {
                let words = line.split(separator: " ")
                if line.hasPrefix("# TYPE ") {
                    #expect(types.updateValue(String(words[3]), forKey: String(words[2])) == nil, "\(line)")
                } else if !line.hasPrefix("#") {
                    let name = String(line.prefix { $0 != "{" && $0 != " " })
                    let families = ["", "_bucket", "_sum", "_count"].compactMap { suffix in
                        name.hasSuffix(suffix) ? types[String(name.dropLast(suffix.count))] : nil
                    }
                    #expect(!families.isEmpty, "\(line)")
                    #expect(Double(words.last ?? "") != nil, "\(line)")
                }
            }
            #expect(text.contains("pathmirror_writes_total 1\n"))
            #expect(text.contains("pathmirror_log_head_seq{namespace=\"default\"} 1\n"))
        }
    }
}
