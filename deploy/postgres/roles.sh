#!/usr/bin/env bash
# The database's roles; the image runs this when it creates the data directory. Run it again to change the passwords:
#   docker compose exec postgres /docker-entrypoint-initdb.d/roles.sh
#
#   pathmirror_owner     owns schema pathmirror and migrates it
#   pathmirror_gateways  the role of gateways; a member of pathmirror_gateway, to which migrations grant the necessary rights
#   pathmirror_reader, pathmirror_writer, pathmirror_gateway     without login: docs/reference/sql.md
set -euo pipefail

: "${PATHMIRROR_OWNER_PASSWORD:?}" "${PATHMIRROR_GATEWAY_PASSWORD:?}"
database=${POSTGRES_DB:-pathmirror}

# By the socket, which the image trusts: only the container's user reaches it.
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname "$database" <<'SQL'
-- A statement that fails would otherwise be in the server's log, and some hold a password.
set log_statement = 'none';
set log_min_error_statement = 'panic';
set log_min_duration_statement = -1;
\getenv owner_password PATHMIRROR_OWNER_PASSWORD
\getenv gateway_password PATHMIRROR_GATEWAY_PASSWORD

select format('create role %I', name)
from unnest(array['pathmirror_reader', 'pathmirror_writer', 'pathmirror_gateway', 'pathmirror_owner', 'pathmirror_gateways']) as name
where not exists (select from pg_roles where rolname = name)
\gexec

alter role pathmirror_owner login password :'owner_password';
alter role pathmirror_gateways login password :'gateway_password';
grant pathmirror_gateway to pathmirror_gateways;

create schema if not exists pathmirror authorization pathmirror_owner;
-- Nobody else comes in; gateways make schemas for mirrors' tables, which are theirs.
revoke all on database :"DBNAME" from public;
revoke all on schema public from public;
grant connect on database :"DBNAME" to pathmirror_owner, pathmirror_reader, pathmirror_writer, pathmirror_gateway;
-- Migrations begin with `create schema if not exists`, which asks for this even where the schema exists.
grant create on database :"DBNAME" to pathmirror_owner, pathmirror_gateway;
SQL
