/// Calls that can't be meant. They end the process, as programmers' errors do everywhere in Swift; the vendor's SDK raises
/// an exception there. In release builds too, the message is printed, which `preconditionFailure` does not do.
enum Misuse {
    static func stop(_ function: String, _ reason: String, file: StaticString = #file, line: UInt = #line) -> Never {
        fatalError("\(function): \(reason)", file: file, line: line)
    }

    /// The body's result; what it throws ends the process with the reason, and with the name of what was called.
    static func check<Value>(_ function: String, _ body: () throws(InvalidArgument) -> Value) -> Value {
        do {
            return try body()
        } catch {
            stop(function, error.description)
        }
    }
}

/// An argument that the protocol has no place for. Where nobody is there to be told of an error, it is a
/// `Misuse`.
struct InvalidArgument: Error, Equatable, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
