import Gateway

/// The option about web pages.
enum OriginOptions {
    static let options: [OptionSpecification] = [
        .init(
            "allow-origin", "ORIGIN[,…]",
            "web pages that may use the gateway, such as http://app.test:3000, https://*.app.example or null; may be repeated; default: for dev this machine's, for serve all"
        )
    ]

    static func read(_ arguments: ParsedArguments) throws -> [AllowedOrigin] {
        guard let text = arguments["allow-origin"], !text.isEmpty else { return [] }
        return try text.split(separator: ",", omittingEmptySubsequences: false).map { part in
            do throws(AllowedOrigin.Mistake) {
                return try AllowedOrigin(part.filter { $0 != " " })
            } catch {
                throw UsageError("--allow-origin: \(error.text).")
            }
        }
    }
}
