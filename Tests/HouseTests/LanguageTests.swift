import Testing

/// Measures the language of comments, texts and pages (CONTRIBUTING.md, Words), as far as a program can. A letter is a failed
/// message in old texts; it is not measured, because keys and names have letters, too.
@Suite struct LanguageTests {
    private struct Area {
        let name: String
        let prose: [Prose]
        /// Indefinite words in 1,000 words.
        let indefinite: Double
        /// The share of comments that open with a word which hides the subject.
        var openings = 0.005
    }

    private static let indefinite: Set<String> = [
        "who", "whom", "whoever", "what", "whatever", "somebody", "nobody", "anybody", "everybody", "someone", "anyone",
    ]
    private static let openings: Set<String> = [
        "who", "whom", "whoever", "what", "whatever", "where", "behind", "those",
    ]

    /// Words and phrases that had a private meaning, with the standard terms.
    private static let retired: [(phrases: [String], instead: String)] = [
        (["place", "places"], "path, position, address or offset"),
        (["told", "tell", "tells", "telling"], "notify, emit, report or return"),
        (["behind"], "after"),
        (["nobody", "somebody", "whoever", "anybody", "everybody"], "the name of the party"),
        (["go on", "goes on", "going on", "gone on", "went on"], "resume, continue or retry"),
        (["anew"], "again, rebuild or reload"),
        (["misfit", "misfits"], "conversion error"),
        (["as of"], "at"),
        (["under way"], "in flight"),
        (["lane", "lanes"], "shared reader"),
        (["packed", "packing", "packs"], "paged out or compressed"),
        (["stretch", "stretches"], "stall"),
        (["beat", "beats"], "heartbeat"),
        (["joint"], "shared transaction"),
        (["gather", "gathers", "gathered", "gathering"], "commit delay or collect"),
        (["desk", "desks"], "queue"),
        (["bell", "bells"], "signal"),
        (["let go", "lets go", "letting go"], "evict or release"),
        (["take back", "takes back", "taken back"], "rolled back or lost"),
        (["homeless"], "unrouted"),
        (["handmade"], "user-defined"),
        (["home", "homes"], "primary database"),
        (["seal", "seals", "sealed"], "signature"),
        (["the original", "the vendor", "the vendor's"], "Firebase"),
        (["carry out", "carries out", "carried out"], "execute"),
    ]

    /// Ordinary uses of these words.
    private static let ordinary = [
        "in place", "in place of", "in its place", "take place", "takes place", "decimal places", "place known",
        "place local",
        "behind a proxy", "behind a trusted proxy", "behind a reverse proxy", "behind a load balancer",
        "behind trusted proxies",
        "fall behind", "falls behind", "falling behind", "far behind", "lag behind", "lags behind", "follow behind",
        "is behind", "are behind", "entries behind", "bytes behind", "seconds behind", "s behind",
        // A user of the operating system.
        "postgres or nobody",
        // Commands call the primary database home.
        "database home", "in home", "default home", "or home", "home directory", "home page",
    ]

    private static var areas: [Area] {
        let sources = SourceFiles.swift(below: "Sources")
        let tests = SourceFiles.swift(below: "Tests")
        let pages =
            SourceFiles.pages(below: "docs") + ["CHANGELOG.md", "README.md", "CONTRIBUTING.md", "SECURITY.md"]
        let python = ["Tests", "Benchmarks", "examples"].flatMap(SourceFiles.python)
        let scripts = ["scripts", "deploy", "Tests/public"].flatMap(SourceFiles.shellScripts)
        let settings =
            ["Makefile", "docker-compose.yml", "deploy/Dockerfile", "deploy/.env.example"]
            + SourceFiles.paths(below: "deploy").filter { path in
                [".yml", ".conf", ".service", ".example"].contains { path.hasSuffix($0) }
            }.sorted()
        return [
            Area(name: "comments", prose: sources.flatMap(Prose.comments), indefinite: 2),
            Area(name: "comments of tests", prose: tests.flatMap(Prose.comments), indefinite: 2),
            Area(name: "comments of Python programs", prose: python.flatMap(Prose.python), indefinite: 2),
            Area(
                name: "comments of scripts", prose: (scripts + settings.map(SourceFiles.file)).flatMap(Prose.script),
                indefinite: 2),
            Area(name: "texts", prose: sources.flatMap(Prose.texts), indefinite: 6),
            Area(name: "pages", prose: pages.flatMap(Prose.page), indefinite: 6),
        ]
    }

    @Test func wordsAreStandard() {
        for area in Self.areas {
            var count = 0
            var indefinite: [String] = []
            for prose in area.prose {
                let words = prose.words
                count += words.count
                for word in words where Self.indefinite.contains(word) {
                    indefinite.append("\(prose.path):\(prose.line) \(word)")
                }
                for (phrase, instead) in Self.retired(in: words) {
                    Issue.record("\(prose.path):\(prose.line) says \"\(phrase)\": the standard term is \(instead)")
                }
            }
            let share = Double(indefinite.count) * 1000 / Double(max(1, count))
            #expect(count > 1000, "\(area.name) are found")
            #expect(
                share <= area.indefinite,
                "\(area.name): name the party or the thing: \(indefinite.joined(separator: ", "))")
        }
    }

    @Test func commentsBeginWithAVerbOrANoun() {
        for area in Self.areas {
            let first = area.prose.filter(\.begins)
            let hidden = first.filter { prose in
                let words = prose.words
                return Self.openings.contains(words.first ?? "") || words.starts(with: ["as", "of"])
            }
            let share = Double(hidden.count) / Double(max(1, first.count))
            #expect(
                share <= area.openings,
                "\(area.name): \(hidden.map { "\($0.path):\($0.line)" }.joined(separator: ", "))")
        }
    }

    @Test func commentsOfPythonAreFound() {
        let lines = """
            #!/usr/bin/env python3
            \"\"\"A module,
            of two lines.

                python module.py
            \"\"\"
            TEXT = \"\"\"
            # no comment
            \"\"\"
            def work():
                \"\"\"Works.\"\"\"
                # A reason,
                # and another.
                return 1  # at the end of a line
            """.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        let found = Prose.python(in: SourceFiles.File(path: "", lines: lines))
        #expect(found.map(\.text) == ["A module,", "of two lines.", "", "Works.", "A reason,", "and another."])
        #expect(found.map(\.line) == [2, 3, 4, 11, 12, 13])
        #expect(found.filter(\.begins).map(\.line) == [2, 11, 12])
    }

    @Test func commentsOfScriptsAreFound() {
        let lines = [
            "#!/bin/sh", "# Runs it.", "#", "#   run NAME", "# shellcheck disable=SC2086", "run # here",
            "\t# Then ends.",
        ]
        let found = Prose.script(in: SourceFiles.File(path: "", lines: lines))
        #expect(found.map(\.text) == ["Runs it.", "", "Then ends."])
        #expect(found.filter(\.begins).map(\.line) == [2, 7])
    }

    /// The retired phrases that remain once ordinary uses are set aside.
    private static func retired(in words: [String]) -> [(phrase: String, instead: String)] {
        var isOrdinary = [Bool](repeating: false, count: words.count)
        for phrase in ordinary {
            for range in ranges(of: phrase, in: words) {
                for index in range { isOrdinary[index] = true }
            }
        }
        return retired.flatMap { entry in
            entry.phrases.flatMap { phrase in
                ranges(of: phrase, in: words).filter { !$0.allSatisfy { isOrdinary[$0] } }.map { _ in
                    (phrase, entry.instead)
                }
            }
        }
    }

    private static func ranges(of phrase: String, in words: [String]) -> [Range<Int>] {
        let wanted = phrase.split(separator: " ").map(String.init)
        guard words.contains(wanted[0]), words.count >= wanted.count else { return [] }
        return (0...words.count - wanted.count).compactMap { start in
            words[start..<start + wanted.count].elementsEqual(wanted) ? start..<start + wanted.count : nil
        }
    }

    @Test func retiredWordsAreFound() {
        func found(_ text: String) -> [String] {
            Self.retired(in: Prose(path: "", line: 1, text: text).words).map(\.phrase)
        }
        #expect(found("The place behind a proxy") == ["place"])
        #expect(found("updated in place") == [])
        #expect(found("Goes on with it as of `place`") == ["goes on", "as of"])
        #expect(found("[a page](place/told.md) says \"nobody\"") == [])
    }
}
