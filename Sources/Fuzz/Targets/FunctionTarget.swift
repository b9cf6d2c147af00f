import Feeds
import JSONText
import Tree

extension FuzzTarget {
    /// Registrations of functions, as the Functions emulator sends them to `dev`.
    static let function = FuzzTarget(
        name: "function",
        corpus: [
            #"{"name":"projects/demo/locations/us-central1/triggers/us-central1-greet-0","path":"rooms/{room}","event":"google.firebase.database.ref.v1.written","topic":"projects/demo/topics/us-central1-greet-0","namespacePattern":"*"}"#,
            #"{"name":"projects/p/locations/r/triggers/k","path":"/a/*/{b=*}","event":"google.firebase.database.ref.v1.created","namespacePattern":"demo-*-rtdb"}"#,
            #"{"name":"projects/p/locations/_/functions/k","path":"a","event":"providers/google.firebase.database/eventTypes/ref.write","topic":"t"}"#,
            #"{"name":"projects/p/locations/r/triggers/k-7","path":"a/é","event":"google.firebase.database.ref.v1.deleted","namespacePattern":"{instance}"}"#,
        ],
        tokens: [
            "{", "}", "\"", ":", ",", "*", "**", "=*}", "{a}", "/", "..", "-1", "\\u0000", "é", "\"name\":",
            "\"path\":",
            "\"event\":", "\"namespacePattern\":", "google.firebase.database.ref.v1.updated", "projects/", "/triggers/",
        ]
    ) { input, summary in
        let trigger: FunctionTrigger
        do throws(FunctionTrigger.Mistake) {
            trigger = try FunctionTrigger(input)
        } catch {
            summary.note(error.description.count)
            return error.description.isEmpty ? "a mistake without a reason" : nil
        }
        guard RawJSON(input).isJSON else { return "an input that is not JSON is read" }
        summary.noteSize(trigger.feed.count)
        let definition = trigger.definition(
            emulator: "127.0.0.1:5001", secret: "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", isNew: false)
        let stored = definition.json(as: .stored)
        do throws(DefinitionError) {
            guard try FeedDefinition.read(stored: stored, name: trigger.feed) == definition else {
                return "the feed of the function is stored as another feed"
            }
        } catch {
            return "the feed of the function can't be read: \(error)"
        }
        if let namespace = trigger.namespace, !trigger.concerns(namespace) { return "a namespace without its function" }
        return nil
    }.measuring { _ = try? FunctionTrigger($0) }
}
