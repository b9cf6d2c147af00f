/// Makes schemas, and names the privilege that is missing where that can't be done.
///
/// `create schema if not exists` takes CREATE on the database even where the schema is there: a database that `pg_restore` has
/// made lacks what was granted on the one that was dumped.
public enum SchemaMaking {
    /// A statement that makes a schema where it is not there. A role that may not do that, or may not make tables in a schema
    /// that is there, gets an error 42501 whose hint is the statement that grants the privilege.
    public static func sql(_ schema: String) -> String {
        block(schema, whereItIsMissing: making, whereItIs: needing("create", "usage"))
    }

    /// A statement that fails in the same way where a role may not use a schema that is there. It makes nothing.
    public static func usageSQL(_ schema: String) -> String {
        block(schema, whereItIsMissing: "null;", whereItIs: needing("usage"))
    }

    private static func needing(_ privileges: String...) -> String {
        """
        elsif not (\(privileges.map { "has_schema_privilege(wanted, '\($0)')" }.joined(separator: " and "))) then
            raise exception using errcode = 'insufficient_privilege',
                message = format('the role %I lacks the privilege CREATE or USAGE on the schema %I', current_user, wanted),
                hint = format('as %I, who owns the schema: grant create, usage on schema %I to %I', owner, wanted, current_user);
        """
    }

    /// The same for schema `pathmirror`, where whoever migrates it has to be its owner.
    static let ownSQL = block(
        "pathmirror", whereItIsMissing: making,
        whereItIs: """
            elsif not pg_has_role(owner, 'usage') then
                raise exception using errcode = 'insufficient_privilege',
                    message = format('the role %I does not own the schema %I, which belongs to %I', current_user, wanted, owner),
                    hint = format('migrate as %I, or as a role that has been granted it', owner);
            """)

    private static let making = """
        if not has_database_privilege(current_database(), 'create') then
            raise exception using errcode = 'insufficient_privilege',
                message = format('the role %I lacks the privilege CREATE on the database %I, which making the schema %I takes',
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

    /// By scalars: a character of Swift may be a quote and what follows it.
    private static func literal(_ text: String) -> String {
        var quoted = "E'"
        for scalar in text.unicodeScalars {
            if scalar == "'" || scalar == "\\" { quoted.unicodeScalars.append("\\") }
            quoted.unicodeScalars.append(scalar)
        }
        return quoted + "'"
    }
}
