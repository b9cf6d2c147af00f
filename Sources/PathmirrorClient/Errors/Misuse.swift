/// Invalid calls. They terminate the process, like programming errors elsewhere in Swift; Firebase's SDK raises an exception.
/// The message is also printed in release builds, which `preconditionFailure` does not do.
enum Misuse {
    static func stop(_ function: String, _ reason: String, file: StaticString = #file, line: UInt = #line) -> Never {
        fatalError("\(function): \(reason)", file: file, line: line)
    }

    /// Returns the result of the body. If the body throws, terminates the process with the reason and the name of the called function.
    static func check<Value>(_ function: String, _ body: () throws(InvalidArgument) -> Value) -> Value {
        do {
            return try body()
        } catch {
            stop(function, error.description)
        }
    }
}

/// An argument that the protocol does not allow. If the caller has no way to receive an error, it is a `Misuse`.
struct InvalidArgument: Error, Equatable, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
