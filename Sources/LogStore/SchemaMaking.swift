/// Creates schemas, and reports the missing privilege if that fails.
///
/// `create schema if not exists` requires CREATE on the database even if the schema exists. A database restored by
/// `pg_restore` lacks the privileges that were granted on the dumped database.
public enum SchemaMaking {
    /// Returns a statement that creates a schema if it does not exist. A role that may not create it, or may not create
    /// tables in an existing schema, gets error 42501 with the necessary grant as its hint.
    public static func sql(_ schema: String) -> String {
        block(schema, whereItIsMissing: making, whereItIs: needing("create", "usage"))
    }

    /// Returns a statement that fails with error 42501 if the role may not use an existing schema. It creates nothing.
    public static func usageSQL(_ schema: String) -> String {
        block(schema, whereItIsMissing: "null;", whereItIs: needing("usage"))
    }

    private static func needing(_ privileges: String...) -> String {
        """
        elsif not (\(privileges.map { "has_schema_privilege(wanted, '\($0)')" }.joined(separator: " and "))) then
            raise exception using errcode = 'insufficient_privilege',
                message = format('the role %I lacks the privilege CREATE or USAGE on the schema %I', current_user, wanted),
                hint = format('as %I, the owner of the schema: grant create, usage on schema %I to %I', owner, wanted, current_user);
        """
    }

    /// A statement that creates schema `pathmirror`. If the schema exists, it fails with error 42501 unless the role,
    /// which migrates it, owns it.
    static let ownSQL = block(
        "pathmirror", whereItIsMissing: making,
        whereItIs: """
            elsif not pg_has_role(owner, 'usage') then
                raise exception using errcode = 'insufficient_privilege',
                    message = format('the role %I does not own the schema %I, which belongs to %I', current_user, wanted, owner),
                    hint = format('migrate as %1$I, or as a member of %1$I', owner);
            """)

    private static let making = """
        if not has_database_privilege(current_database(), 'create') then
            raise exception using errcode = 'insufficient_privilege',
                message = format('the role %I lacks the privilege CREATE on the database %I, which is needed to create the schema %I',
                    current_user, current_database(), wanted),
                hint = format('as a superuser or the owner of the database: grant create on database %I to %I',
                    current_database(), current_user);
        end if;
        execute format('create schema if not exists %I', wanted);
        """

    private static func block(_ schema: String, whereItIsMissing: String, whereItIs: String) -> String {
        "do "
            + literal(
                """
                declare
                    wanted constant name := \(literal(schema));
                    owner name;
                begin
                    select pg_get_userbyid(nspowner) into owner from pg_namespace where nspname = wanted;
                    if owner is null then
                    \(whereItIsMissing)
                    \(whereItIs)
                    end if;
                end
                """)
    }

    /// Quotes by scalars, because a Swift character may consist of a quote and a following combining mark.
    private static func literal(_ text: String) -> String {
        var quoted = "E'"
        for scalar in text.unicodeScalars {
            if scalar == "'" || scalar == "\\" { quoted.unicodeScalars.append("\\") }
            quoted.unicodeScalars.append(scalar)
        }
        return quoted + "'"
    }
}
