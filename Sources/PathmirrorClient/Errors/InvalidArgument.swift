/// An argument that the protocol has no place for. Where nobody is there to be told of an error, it ends the process, as a
/// programmer's error does everywhere in Swift.
struct InvalidArgument: Error, Equatable, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }

    /// The body's result; what it throws ends the process with the reason, and with the name of what was called.
    static func check<Value>(
        _ function: String, _ body: () throws(InvalidArgument) -> Value, file: StaticString = #file, line: UInt = #line
    ) -> Value {
        do {
            return try body()
        } catch {
            preconditionFailure("\(function): \(error.description)", file: file, line: line)
        }
    }
}
