import Runtime

/// An option of `dev` and `serve`, and what it sets.
struct ServiceSetting: Sendable {
    let specification: OptionSpecification
    /// Sets what the option says; changes nothing where it isn't given.
    let take: @Sendable (ParsedArguments, inout ServiceOptions) throws -> Void

    /// A whole number.
    static func number<Value: BinaryInteger & SendableMetatype>(
        _ name: String, _ range: ClosedRange<Int>, _ help: String,
        _ set: @escaping @Sendable (inout ServiceOptions, Value) -> Void
    ) -> ServiceSetting {
        ServiceSetting(specification: OptionSpecification(name, "N", help)) { arguments, options in
            if let value = try arguments.integer(name, in: range) { set(&options, Value(value)) }
        }
    }

    /// A duration, in milliseconds.
    static func duration(
        _ name: String, _ range: ClosedRange<Milliseconds>, _ help: String,
        _ set: @escaping @Sendable (inout ServiceOptions, Milliseconds) -> Void
    ) -> ServiceSetting {
        ServiceSetting(specification: OptionSpecification(name, "TIME", help)) { arguments, options in
            if let value = try arguments.duration(name, in: range) { set(&options, value) }
        }
    }

    /// A size, in bytes.
    static func size(
        _ name: String, _ range: ClosedRange<Int>, _ help: String,
        _ set: @escaping @Sendable (inout ServiceOptions, Int) -> Void
    ) -> ServiceSetting {
        ServiceSetting(specification: OptionSpecification(name, "SIZE", help)) { arguments, options in
            if let value = try arguments.size(name, in: range) { set(&options, value) }
        }
    }

    /// A text; `set` refuses what is none.
    static func text(
        _ name: String, _ placeholder: String, _ help: String,
        _ set: @escaping @Sendable (inout ServiceOptions, String) throws -> Void
    ) -> ServiceSetting {
        ServiceSetting(specification: OptionSpecification(name, placeholder, help)) { arguments, options in
            if let text = arguments[name] { try set(&options, text) }
        }
    }
}
