import Tree
import Wire

extension FuzzTarget {
    /// The query parameters of REST requests, and the results of their queries.
    static let parameters = FuzzTarget(
        name: "parameters",
        corpus: [
            "orderBy=%22%24key%22&startAt=%22a%22&limitToFirst=3", "orderBy=\"height\"&equalTo=5&print=pretty&ns=x",
            "orderBy=\"$value\"&endBefore=1.5&startAfter=null,\"k\"&limitToLast=2",
            "orderBy=\"$priority\"&startAt=true,%22a%22", "shallow=true&limitToFirst=2&timeout=3s",
            "auth=x&access_token=y&auth_variable_override=%7B%7D&callback=cb&download=a.json",
            "writeSizeLimit=tiny&format=export&x-http-method-override=PATCH", "=&&=&a=b=c&%zz=1",
        ],
        tokens: [
            "orderBy=", "startAt=", "startAfter=", "endAt=", "endBefore=", "equalTo=", "limitToFirst=", "limitToLast=",
            "\"$key\"", "\"$value\"", "\"a/b\"", "null", "&", "%", "%22", "=", ",", "[MIN_NAME]", "9223372036854775807",
            "-1", "1e308", "true",
        ]
    ) { input, summary in
        let parameters: RESTParameters
        do throws(RESTError) {
            parameters = try RESTParameters(input[...])
        } catch {
            summary.note(error.message.utf8.count)
            return (400...499).contains(error.status) ? nil : "a refusal with the status \(error.status)"
        }
        guard (try? RESTParameters(Array(parameters.text.utf8)[...])) == parameters else {
            return "the written parameters read as others"
        }
        guard let query = parameters.query else { return nil }
        let selected = query.select(from: sample)
        summary.note(selected.childCount)
        switch query.limit {
        case .first(let count), .last(let count):
            if selected.childCount > count { return "more children than the limit" }
        case nil: break
        }
        guard case .branch(let branch) = sample else { return nil }
        if query.index != .key, OrderedIndex(branch, by: query.index).select(query) != selected {
            return "the ordered index selects something else"
        }
        return nil
    }.measuring { _ = try? RESTParameters($0[...]) }

    private static let sample = Node(
        children: [
            ("1", Node.int(5)), ("10", .string("b")), ("a", .bool(true)), ("b", .double(1.5)), ("c", .string("a")),
            ("height", Node(children: [(Key("height"), .int(5))])), ("k", .int(5)),
            ("z", Node.int(1).withPriority(.int(2))), ("é", .string("😀")),
        ].map { (Key($0.0), $0.1) })
}
