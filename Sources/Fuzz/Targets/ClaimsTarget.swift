import Tokens
import Tree

extension FuzzTarget {
    /// The JSON of tokens, key sets and logins.
    static let claims = FuzzTarget(
        name: "claims",
        corpus: Corpora.json + [
            #"{"sub":"u","iat":1,"exp":99,"auth_time":1.5,"firebase":{"identities":{"google.com":["1"]},"sign_in_provider":"x"}}"#,
            #"{"exp":9223372036854775807,"iat":-1,"nbf":1e300,"uid":"a","claims":{"admin":true,"":null,"a.b/c":[]}}"#,
        ], tokens: Corpora.tokens + ["\"iat\":", "\"exp\":", "\"nbf\":", "9007199254740992", "\"uid\":\"\","]
    ) { input, summary in
        let value: ClaimValue
        do throws(JWTError) {
            value = try ClaimsReader.value(input)
        } catch {
            guard case .malformed(let reason) = error else { return "an error of another kind: \(error)" }
            summary.note(reason)
            // The parser is stricter than JSON only where two readers might differ.
            let isStricter = ["a duplicate name", "JSON nested too deeply", "a lone surrogate", "bad number"]
                .contains(reason)
            return RawJSON(input).isJSON && !isStricter ? "JSON is refused: \(reason)" : nil
        }
        guard RawJSON(input).isJSON else { return "an input that is not JSON is read" }
        let text = ClaimsWriter.encode(value)
        summary.noteSize(text.count)
        guard let again = try? ClaimsReader.value(text) else { return "the written claims are refused" }
        guard again == value else { return "the written claims read as others" }
        guard ClaimsWriter.encode(again) == text else { return "the written claims are not stable" }
        // Rules see the claims as a tree. The conversion of lists and of empty values is lossy, but must be
        // deterministic.
        let node = Node(value)
        guard node == Node(again), node.rowCount == Node(again).rowCount else { return "equal claims make two trees" }
        return value.object.flatMap { times($0, &summary) }
    }.measuring { _ = try? ClaimsReader.value($0) }

    /// Checks that a token that is valid at one time was valid, or not yet valid, at any earlier time.
    private static func times(_ claims: Tokens.Claims, _ summary: inout Summary) -> String? {
        for now in [0, 50, 1_700_000_000, 1 << 53] as [Int64] {
            do throws(JWTError) {
                let times = try TokenTimes(claims, now: now, skew: 30, lifeWithoutExpiry: 3_600)
                guard let end = times.expiresAt, end + 30 > now, times.issuedAt ?? 0 <= now + 30 else {
                    return "a token is good before or after its time"
                }
                summary.note(1)
            } catch {
                summary.note(error.description.utf8.count)
            }
        }
        return nil
    }
}
