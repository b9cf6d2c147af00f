import Postgres

/// The privileges of a user and of `PUBLIC` in schema `pathmirror`.
public struct RightsFacts: Sendable, Equatable {
    /// False if the database has not been migrated. The other facts then mean nothing.
    public var hasSchema = false
    public var ownsSchema = false
    /// Whether the role of the gateways exists, and whether this user is a member of it.
    public var hasGatewayRole = false
    public var isGateway = false
    /// The statement that allows this user to create schemas in the database, or nil if the user may create them
    /// already.
    public var schemaGrant: String?
    /// Privileges that the gateways' role has and this user lacks, such as `insert on log`.
    public var missing: [String] = []
    /// Tables that the gateways' role may not even read, because they were created while the role did not exist.
    public var unknownToGateways: [String] = []
    /// Privileges in the schema that are granted to `PUBLIC`, such as `usage of the schema` and `select on log`.
    public var publicRights: [String] = []

    public init() {}
}

extension LogConnection {
    /// Reads the privileges of this session's user.
    public func rightsFacts() throws(LogStoreError) -> RightsFacts {
        try translated { () throws(PostgresError) in
            var facts = RightsFacts()
            let rows = try postgres.execute(
                """
                select pg_has_role(nspowner, 'usage'), gateway.oid is not null,
                    gateway.oid is not null and pg_has_role(gateway.oid, 'usage'),
                    case when not has_database_privilege(current_database(), 'create')
                        then format('grant create on database %I to %I', current_database(), current_user) end
                from pg_namespace left join pg_roles as gateway on gateway.rolname = 'pathmirror_gateway'
                where nspname = 'pathmirror'
                """)
            guard rows.rowCount == 1 else { return facts }
            facts.hasSchema = true
            facts.ownsSchema = try rows.bool(0, 0)
            facts.hasGatewayRole = try rows.bool(0, 1)
            facts.isGateway = try rows.bool(0, 2)
            facts.schemaGrant = rows.isNull(0, 3) ? nil : try rows.string(0, 3)
            facts.missing = try strings(Self.missingRights)
            facts.unknownToGateways = try strings(Self.tablesWithoutGateways)
            facts.publicRights = try strings(Self.publicRightsQuery)
            return facts
        }
    }

    private func strings(_ sql: String) throws(PostgresError) -> [String] {
        let rows = try postgres.execute(sql)
        var found: [String] = []
        for row in 0..<rows.rowCount { found.append(try rows.string(row, 0)) }
        return found
    }

    /// Statements name the parents of partitions, so partitions are left out.
    private static let tables =
        "pg_class where relnamespace = 'pathmirror'::regnamespace and relkind in ('r', 'p') and not relispartition"

    private static let missingRights = """
        select lower(granted.privilege_type) || ' on ' || relname
        from (select oid, relname, relacl from \(tables)) as made cross join lateral aclexplode(made.relacl) as granted
        join pg_roles as role on role.oid = granted.grantee and role.rolname = 'pathmirror_gateway'
        where not has_table_privilege(made.oid, granted.privilege_type) order by 1
        """

    private static let tablesWithoutGateways = """
        select relname::text from \(tables) and exists (select from pg_roles where rolname = 'pathmirror_gateway')
            and not has_table_privilege('pathmirror_gateway', pg_class.oid, 'select') order by 1
        """

    private static let publicRightsQuery = """
        select lower(granted.privilege_type) || ' of the schema' from pg_namespace
        cross join lateral aclexplode(nspacl) as granted where nspname = 'pathmirror' and granted.grantee = 0
        union all
        select lower(granted.privilege_type) || ' on ' || relname from pg_class
        cross join lateral aclexplode(relacl) as granted
        where relnamespace = 'pathmirror'::regnamespace and granted.grantee = 0
        union all
        select 'execute on ' || proname from pg_proc
        cross join lateral aclexplode(coalesce(proacl, acldefault('f', proowner))) as granted
        where pronamespace = 'pathmirror'::regnamespace and granted.grantee = 0
        order by 1
        """
}
