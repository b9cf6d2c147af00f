/// Compiles operators and checks their operands. The left operand is checked before the right one is compiled.
extension ExpressionCompiler {
    mutating func connective(
        _ name: String, _ operands: [Syntax], _ syntax: Syntax
    ) throws(TextError) -> Operand {
        var refs: [OpRef] = []
        for (index, operand) in operands.enumerated() {
            let compiled = try compile(operand)
            guard compiled.type == .boolean else {
                throw error("\(index == 0 ? "Left" : "Right") operand of \(name) must be boolean.", syntax)
            }
            refs.append(compiled.ref)
        }
        let list = program.append(refs)
        return emit(name == "&&" ? .all(list) : .any(list), .boolean, syntax)
    }

    /// Compiles the operands of a chain of `+`, and checks them from left to right.
    mutating func terms(_ operands: [Syntax], _ syntax: Syntax) throws(TextError) -> [Operand] {
        var terms: [Operand] = []
        for operand in operands {
            let term = try compile(operand)
            guard term.type.isOrdered else {
                let side = terms.isEmpty ? "left" : "right"
                throw error("Invalid + expression: \(side) operand is not a number or string.", syntax)
            }
            terms.append(term)
        }
        return terms
    }

    mutating func binary(
        _ binary: BinaryOperator, _ left: Syntax, _ right: Syntax, _ syntax: Syntax
    ) throws(TextError) -> Operand {
        let first = try compile(left)
        guard accepts(binary, first.type) else { throw error(message(binary, isLeft: true), syntax) }
        let second = try compile(right)
        guard accepts(binary, second.type) else { throw error(message(binary, isLeft: false), syntax) }
        let (a, b) = (first.ref, second.ref)
        return switch binary {
        case .equal: emit(.equal(a, b), .boolean, syntax)
        case .unequal: emit(.unequal(a, b), .boolean, syntax)
        case .less: emit(.compare(.less, a, b), .boolean, syntax)
        case .lessOrEqual: emit(.compare(.lessOrEqual, a, b), .boolean, syntax)
        case .greater: emit(.compare(.greater, a, b), .boolean, syntax)
        case .greaterOrEqual: emit(.compare(.greaterOrEqual, a, b), .boolean, syntax)
        case .subtract: emit(.arithmetic(.subtract, a, b), .number, syntax)
        case .multiply: emit(.arithmetic(.multiply, a, b), .number, syntax)
        case .divide: emit(.arithmetic(.divide, a, b), .number, syntax)
        case .remainder: emit(.arithmetic(.remainder, a, b), .number, syntax)
        }
    }

    private func accepts(_ binary: BinaryOperator, _ type: StaticType) -> Bool {
        switch binary {
        case .equal, .unequal: type.isComparable
        case .less, .lessOrEqual, .greater, .greaterOrEqual: type.isOrdered
        case .subtract, .multiply, .divide, .remainder: type.isNumeric
        }
    }

    /// Returns Firebase's wording, which lacks the "or" in the text for the left operand of `==`.
    private func message(_ binary: BinaryOperator, isLeft: Bool) -> String {
        let name = binary.rawValue
        let side = isLeft ? "left" : "right"
        return switch binary {
        case .equal where isLeft: "Invalid == expression: left operand is not a number, boolean, string, null."
        case .equal, .unequal:
            "Invalid \(name) expression: \(side) operand is not a number, boolean, string, or null."
        case .less, .lessOrEqual, .greater, .greaterOrEqual:
            "Invalid \(name) expression: \(side) operand must be a number or string."
        case .subtract, .multiply, .divide, .remainder:
            "Invalid \(name) expression: \(side) operand is not a number."
        }
    }

    mutating func conditional(
        _ condition: Syntax, _ then: Syntax, _ otherwise: Syntax, _ syntax: Syntax
    ) throws(TextError) -> Operand {
        let test = try compile(condition)
        guard test.type == .boolean else { throw error("condition of ? must be boolean.", syntax) }
        let first = try branch(then)
        let second = try branch(otherwise)
        return emit(.choose(test.ref, first.ref, second.ref), StaticType.either(first.type, second.type), syntax)
    }

    /// Compiles a branch, which must be a value: methods, queries and patterns have no meaning there.
    private mutating func branch(_ syntax: Syntax) throws(TextError) -> Operand {
        let operand = try compile(syntax)
        guard operand.type == .snapshot || operand.type.isComparable else {
            throw error("Invalid ? expression: branch is not a value.", syntax)
        }
        return operand
    }
}
