import Follower
import JSONText
import Tree
import Wire

extension FuzzTarget {
    /// Files of service accounts.
    static let serviceAccount = FuzzTarget(
        name: "service-account",
        corpus: [
            accountText(key: accountKey),
            accountText(key: #"-----BEGIN PRIVATE KEY-----\nhushedhushed\n-----END PRIVATE KEY-----\n"#),
            #"{"type":"service_account","client_email":"a","token_uri":"b"}"#, #"{"type":"authorized_user"}"#, "[]",
        ],
        tokens: [
            "{", "}", "[", "]", ":", ",", "\"", "\\", "\\n", "\\u0000", "\\ud83d", "\"type\":", "\"service_account\"",
            "\"client_email\":", "\"token_uri\":", "\"private_key\":", "\"private_key_id\":", "null", "1e999", "é",
            "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----", "MIIC",
            "hushed",
        ]
    ) { input, summary in
        switch FollowParsers.serviceAccount(input) {
        case .failure(let error):
            summary.noteWords(of: "\(error)")
            // The file is secret; an error may name its members only.
            let text = "\(error)"
            return text.contains("hushed") || text.contains("MIIC") ? "an error shows the key: \(text)" : nil
        case .success(let account):
            summary.noteSize(account.email.utf8.count)
            summary.noteSize(account.tokenURI.utf8.count)
            guard RawJSON(input).isJSON else { return "a file that is not JSON is read" }
            if account.email.isEmpty || account.tokenURI.isEmpty { return "an account without a name or an endpoint" }
            guard let form = FollowParsers.tokenRequest(input, now: 1_700_000_000) else { return nil }
            // Whatever the file says, nothing else becomes part of the form.
            let isSafe = form.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "+") }
            let members = form.count { $0 == UInt8(ascii: "&") } + 1
            return isSafe && members == 2 ? nil : "the form has members of the file's"
        }
    }.measuring { _ = FollowParsers.serviceAccount($0) }

    private static func accountText(key: String) -> String {
        #"{"type":"service_account","project_id":"demo","private_key_id":"0123","private_key":"\#(key)","#
            + #""client_email":"follower@demo.iam.gserviceaccount.com","#
            + #""token_uri":"https://oauth2.googleapis.com/token"}"#
    }

    /// Answers of token endpoints.
    static let accessToken = FuzzTarget(
        name: "access-token",
        corpus: [
            #"{"access_token":"ya29.a0AfH6SM","expires_in":3599,"token_type":"Bearer"}"#,
            #"{"access_token":"x","expires_in":-1}"#, #"{"access_token":"x","expires_in":1.5e300}"#,
            #"{"access_token":"x","expires_in":"soon"}"#, #"{"access_token":"a b","expires_in":20}"#,
            #"{"error":"invalid_grant","error_description":"Invalid JWT Signature."}"#, #"{"id_token":7}"#, "null",
        ],
        tokens: [
            "{", "}", ":", ",", "\"", "\\r\\n", "\\u0000", "\"access_token\":", "\"expires_in\":",
            "9223372036854775807", "-9223372036854775808",
            "9223372036854775808", "1e308", "-1e9", "1e-9", "0", "null", "true", "[", "]", "é", " ",
        ]
    ) { input, summary in
        let now: Int64 = 1_700_000_000_000
        guard let token = FollowParsers.accessToken(input, now: now) else { return nil }
        summary.noteSize(token.text.utf8.count)
        summary.noteSize(Int(token.renewsAt - now))
        guard RawJSON(input).isJSON else { return "an answer that is not JSON is read" }
        // It becomes a header's value.
        let isValue = !token.text.isEmpty && token.text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
        guard isValue else { return "a token that no header can hold" }
        return (now...now + (1 << 41)).contains(token.renewsAt) ? nil : "the token is renewed at \(token.renewsAt)"
    }.measuring { _ = FollowParsers.accessToken($0, now: 0) }

    /// Stored plans of followers.
    static let followPlan = FuzzTarget(
        name: "follow-plan",
        corpus: [
            #"[{"path":"/","range":false}]"#,
            plans[2],
            #"[{"path":"/a/b","range":true,"from":"10","through":"é"}]"#, "[]", "{}", #"[{"range":true}]"#,
        ],
        tokens: [
            "{", "}", "[", "]", ":", ",", "\"", "\\", "/", "//", "\"path\":", "\"range\":", "true", "false",
            "\"from\":", "\"after\":",
            "\"through\":", "\"before\":", "\"10\"", "\"-5\"", "null", "\\u0000", ".", "$", "#", "e\u{301}", "\u{FFFF}",
        ]
    ) { input, summary in
        let text = String(decoding: input, as: UTF8.self)
        guard let stored = FollowParsers.plan(text) else { return nil }
        summary.noteSize(stored.utf8.count)
        summary.note(FollowPlan.count(stored: text) ?? -1)
        guard RawJSON(Array(stored.utf8)).isJSON else { return "the stored form is not JSON: \(stored)" }
        return FollowParsers.plan(stored) == stored ? nil : "the stored form is another plan's: \(stored)"
    }.measuring { _ = FollowPlan.count(stored: String(decoding: $0, as: UTF8.self)) }

    /// Addresses of upstreams.
    static let upstreamAddress = FuzzTarget(
        name: "upstream-address",
        corpus: [
            "https://demo-default-rtdb.firebaseio.com", "https://demo.europe-west1.firebasedatabase.app/",
            "http://127.0.0.1:9000/?ns=demo", "HTTPS://[::1]:443/?ns=a-b_c&x=1#f", "https://hushed:hushed@a.b.c/",
            "https://a.b.c/?auth=hushed", "http://localhost:0?ns=a",
            "https://a.b.c/path",
        ],
        tokens: [
            "http", "https", "://", "/", "?", "#", "&", "ns=", ":", "@", "[", "]", "::1", "[::", ".", "..", "443", "80",
            "65536", "00080", "+80", "%2F", "\r\n",
            "\0", "é", "K", "-", "_", "hushed", "firebaseio.com",
        ]
    ) { input, summary in
        let text = String(decoding: input, as: UTF8.self)
        let address: UpstreamAddress
        do throws(FollowError) {
            address = try UpstreamAddress(text)
        } catch {
            summary.noteWords(of: "\(error)")
            return "\(error)".contains("hushed") ? "an error shows a secret: \(error)" : nil
        }
        summary.note(address.isSecure ? 1 : 0)
        summary.noteSize(address.host.utf8.count)
        // It becomes a request line, a header and a line of the log.
        let shown = address.description
        let isLine = shown.utf8.allSatisfy {
            $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "@") && $0 != UInt8(ascii: "%")
        }
        guard isLine else { return "the address has bytes that a request line can't have: \(shown)" }
        if address.port == 0 || address.host.isEmpty || address.namespace.isEmpty {
            return "a part of the address is empty"
        }
        guard (try? UpstreamAddress(shown)) == address else { return "\(shown) reads as another address" }
        return nil
    }.measuring { _ = try? UpstreamAddress(String(decoding: $0, as: UTF8.self)) }

    /// The messages of a hostile upstream to a follower, one per line. A line with ! is a command for the follower's
    /// surroundings; the first line selects its parts.
    static let follower = FuzzTarget(
        name: "follower",
        corpus: [
            [
                "0", "!g", "!g", #"{"t":"d","d":{"a":"d","b":{"p":"a","d":{"x":1}}}}"#, "!c",
                #"{"t":"d","d":{"a":"m","b":{"p":"","d":{"a/y":2,"b/c":null}}}}"#, "!f", "!c",
            ],
            [
                "1", "!g", #"{"t":"d","d":{"a":"d","b":{"p":"b/c","d":7}}}"#,
                #"{"t":"d","d":{"a":"d","b":{"p":"b","d":{"k":7},"t":1}}}"#,
                #"{"t":"d","d":{"a":"d","b":{"p":"b/k","d":8,"t":1}}}"#, "!u", "!w",
            ],
            ["2", "!g", #"{"t":"d","d":{"a":"d","b":{"p":"","d":{"q":7},"t":2}}}"#, "!r", "!w", "!g"],
            [
                "0", #"{"t":"c","d":{"t":"h","d":{"ts":1,"v":"5","h":"localhost","s":"s"}}}"#,
                #"{"t":"d","d":{"r":1,"b":{"s":"ok","d":""}}}"#,
                #"{"t":"d","d":{"r":2,"b":{"s":"ok","d":{"auth":null}}}}"#,
                #"{"t":"d","d":{"r":3,"b":{"s":"too_big","d":""}}}"#, "!k", "!g",
                #"{"t":"d","d":{"a":"rm","b":{"p":"","d":[{"s":"a","e":"b","m":{"b":{"d":1}}}]}}}"#,
            ],
            [
                "0", "!g", #"{"t":"d","d":{"a":"d","b":{"p":"a","d":1}}}"#,
                #"{"t":"d","d":{"a":"d","b":{"p":"a","d":2}}}"#,
                #"{"t":"d","d":{"a":"d","b":{"p":"a","d":3}}}"#, "!r", "!w", "!g",
            ],
            [
                "0", "!g", #"{"t":"c","d":{"t":"e","d":"payload is too large"}}"#, "!x", "!w", "!g", "!x", "!w", "!k",
                "!g",
            ],
            [
                "0", "!g", #"{"t":"d","d":{"a":"c","b":{"p":"/"}}}"#, "!w", "!g",
                #"{"t":"d","d":{"a":"ac","b":{"s":"expired_token","d":""}}}"#, "!w",
                #"{"t":"c","d":{"t":"s","d":"moved"}}"#,
                "!w", #"{"t":"c","d":{"t":"r","d":"other:80"}}"#,
            ],
        ].map { (lines: [String]) in lines.joined(separator: "\n") },
        tokens: Corpora.tokens + [
            "\n", "\n!g\n", "\n!c\n", "\n!f\n", "\n!u\n", "\n!r\n", "\n!x\n", "\n!w\n", "\n!k\n", "\"r\":3,",
            "\"r\":4,", "\"t\":1", "\"t\":2", "\"too_big\"",
            "\"permission_denied\"", "{\"t\":\"d\",\"d\":", "{\"t\":\"c\",\"d\":", "\"a\":\"d\"", "\"a\":\"m\"",
            "\"a\":\"rm\"", "\"a\":\"c\"", "\"p\":\"\"",
            "\"p\":\"a\"", "\"p\":\"b/k\"", "\"p\":\"../a\"", "3\n", "999999\n", ".priority", ".value",
            "{\"a\":{\"b\":",
        ]
    ) { input, summary in
        guard var trial = run(input) else { return nil }
        summary.noteSize(trial.submitted)
        summary.noteSize(trial.notices)
        summary.note(trial.sent)
        trial.finish()
        return trial.fault
    }.measuring { _ = run($0) }

    /// Plans that cover the tree, and one that does not.
    private static let plans = [
        #"[{"path":"/","range":false}]"#,
        #"[{"path":"/a","range":false},{"path":"/b","range":true,"from":"f","before":"p"}]"#,
        #"[{"path":"/","range":true,"before":"m"},{"path":"/m","range":false},{"path":"/","range":true,"after":"m"}]"#,
    ]

    private static func run(_ input: [UInt8]) -> FollowTrial? {
        var lines = input.split(separator: 10, omittingEmptySubsequences: false)[...]
        let inner = Node(children: [(Key("g"), .int(2)), (Key("z"), .string("out"))])
        let root = Node(children: [(Key("a"), .int(1)), (Key("b"), inner)])
        let choice = lines.popFirst()?.first.map { Int($0) } ?? 0
        guard var trial = FollowTrial(plan: plans[choice % plans.count], root: root) else { return nil }
        for line in lines {
            switch (line.first, line.dropFirst().first) {
            case (UInt8(ascii: "!"), let command?): obey(command, &trial)
            default: trial.hear(Array(line))
            }
        }
        return trial
    }

    private static func obey(_ command: UInt8, _ trial: inout FollowTrial) {
        switch command {
        case UInt8(ascii: "g"): trial.behave()
        case UInt8(ascii: "c"): trial.answer(.committed)
        case UInt8(ascii: "f"): trial.answer(.failed)
        case UInt8(ascii: "u"): trial.answer(.unknown)
        case UInt8(ascii: "r"): trial.answer(.refused)
        case UInt8(ascii: "x"): trial.cut()
        case UInt8(ascii: "w"): trial.wait()
        case UInt8(ascii: "k"): trial.list(["a", "g", "k", "z"].map { Key($0) })
        default: break
        }
    }

    /// A key that is used nowhere else.
    private static let accountKey =
        """
        -----BEGIN PRIVATE KEY-----\\n\
        MIICdwIBADANBgkqhkiG9w0BAQEFAASCAmEwggJdAgEAAoGBAONpFRdvnxapuURa\\n\
        tgIwRQXKn110OQ2dbBaV6Zo+BJMA41JxQ3AV3OZMQwFEbE3rywivzrHvaX3KASuT\\n\
        TnYPMxC+q7ybCQhITORgSY87r3CBZ6Jte+TUWQAuZB7yGR6XaTSdrzwapuNhrx2i\\n\
        MBtcqvAvWgOunrhznWDq/izvvlI7AgMBAAECgYAa3/NHJsDVS8+CPXoe/hdaHN0C\\n\
        jVakvkLk1Gib+tJNkSBMQOhoWZ0WdlLA1pY6CzCeYTB7JMEBxZqnzKvMFfXBvssI\\n\
        yvx7C6KW3OD0JPJCIajaPLtY7uTMacN/7GaFaMWar386aOxNwbk3fNpSdPsR8cb3\\n\
        ophbkpzAgzVHswyHeQJBAPc2HZhbYe+NCJsrj89KiF1LD7rr2ccOEuJ9oYjI925b\\n\
        77vueJHNJolsGDjAGFx4BGomear2Gjvb/QW40FXGfEUCQQDrfsHyigRY5MvBr4gr\\n\
        XU1JqTgtb8LJ8De/ZHep0anHR2Ur/oLPh1AIDuN/IIHzF58GYsrH3W6fIuTnsNJt\\n\
        NLx/AkA7M/OMfD4ND3qDJsCPBSt5JDPFMRx7hkxRf4LC7lYLUOst16N6T2YuPPvk\\n\
        A2USKA/ul/5FSiDoOvvydds234z9AkEArOy7hloKryvy4xr+JrmwkzKLafHzW03l\\n\
        4cjohe7LeOXYSOHvNGzsO76TFzrLsbHauFm7BeB35qs841VYb5CWCQJBANzi/J4H\\n\
        H0/NwGZK/+K+7sfatvdTkBTfYg5ZSD6puMHrpog2MtRB3qRMqE1EIVBAXPcVKAWQ\\n\
        zXq2l3id5HD5kvI=\\n\
        -----END PRIVATE KEY-----\\n
        """
}
