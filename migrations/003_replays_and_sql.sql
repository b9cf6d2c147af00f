-- Snapshots of the tree, cursors that keep the log, replayed entries; reading and writing the tree from SQL.

create table pathmirror.snapshot (
    namespace_id bigint not null,
    -- The tree is the one after this entry.
    seq bigint not null,
    -- When that entry was committed; null for seq 0.
    entry_at timestamptz,
    created_at timestamptz not null default now(),
    row_count bigint not null,
    -- manual, or prune: the latter goes when the log that follows it is pruned.
    made_by text not null,
    primary key (namespace_id, seq)
);

comment on table pathmirror.snapshot is 'Whole trees as of past entries: with the log behind them, any later tree can be rebuilt.';

create table pathmirror.snapshot_chunk (
    namespace_id bigint not null,
    seq bigint not null,
    chunk integer not null,
    -- {"/path/of/a/leaf": JSON scalar, …}
    leaves json not null,
    primary key (namespace_id, seq, chunk)
);

comment on table pathmirror.snapshot_chunk is 'The leaves of snapshots, in pieces of bounded size.';

create table pathmirror.cursor (
    namespace_id bigint not null,
    -- What kind of reader it is, such as feed.
    kind text not null,
    name text collate "C" not null,
    -- The last entry that the reader is done with.
    seq bigint not null,
    moved_at timestamptz not null default now(),
    primary key (namespace_id, kind, name)
) with (fillfactor = 50);

comment on table pathmirror.cursor is 'Readers that need the entries after seq; mirrors have cursors of their own (see log_cursor).';

create view pathmirror.log_cursor as
select namespace_id, kind, name, seq from pathmirror.cursor
union all
select mirror.namespace_id, 'mirror', mirror.name, coalesce(own.seq, run.seq)
from pathmirror.mirror
left join pathmirror.mirror_cursor as own
    on own.namespace_id = mirror.namespace_id and own.mirror = mirror.id and mirror.target is null
left join pathmirror.mirror_run as run on run.namespace_id = mirror.namespace_id and run.mirror = mirror.id
where coalesce(own.seq, run.seq) is not null;

comment on view pathmirror.log_cursor is 'Every reader that the log is kept for: entries after seq are still needed.';

create table pathmirror.replay_applied (
    -- The namespace that the entry was applied to.
    namespace_id bigint not null,
    -- The first half of the SHA-256 of the source's name: installation, namespace and path.
    source uuid not null,
    source_seq bigint not null,
    -- The entry that it became.
    seq bigint not null,
    primary key (namespace_id, source, source_seq)
);

comment on table pathmirror.replay_applied is 'Which entries of other logs have been applied, so that none is applied twice.';

-- Reading the log

create view pathmirror.log_entry as
select
    namespace.name as namespace, log.namespace_id, log.seq, log.committed_at, log.batch_id, log.op, log.path, log.changes,
    log.parts, log.origin ->> 'uid' as uid, (log.origin ->> 'admin')::boolean as is_admin, log.origin ->> 'via' as via,
    log.origin
from pathmirror.log
join pathmirror.namespace on namespace.id = log.namespace_id;

comment on view pathmirror.log_entry is 'One row an entry of the log.';

-- An entry's changes. json_each would refuse them all for one U+0000 in a value: it is hidden from it as an escape that
-- neither gateways nor jsonb write.
create function pathmirror.each_change(changes json) returns table (path text, value json, "position" bigint)
language sql immutable parallel safe as $$
    select change.key,
        case
            when strpos(changes::text, '\u0000') = 0 then change.value
            else replace(change.value::text, '\ue000', '\u0000')::json
        end,
        change.n
    from json_each(
        case
            when strpos(changes::text, '\u0000') = 0 then changes
            else replace(changes::text, '\u0000', '\ue000')::json
        end) with ordinality as change (key, value, n)
$$;

create view pathmirror.log_change as
select
    namespace.name as namespace, log.namespace_id, log.seq, log.committed_at, log.op,
    -- 0 for what is in the entry itself, from 1 on for the parts of a bulk entry.
    piece.part, change.position, change.path collate "C" as path, change.value, log.origin ->> 'uid' as uid, log.origin
from pathmirror.log
join pathmirror.namespace on namespace.id = log.namespace_id
cross join lateral (
    select 0 as part, log.changes
    union all
    select log_part.part + 1, log_part.changes from pathmirror.log_part
    where log.parts > 0 and log_part.namespace_id = log.namespace_id and log_part.seq = log.seq
) as piece
cross join lateral pathmirror.each_change(piece.changes) as change;

comment on view pathmirror.log_change is 'One row a change of the log: the value is JSON null where something was removed.';

-- Paths and values, as the gateways have them (Sources/Tree: KeyRules, JSONParser, JSONWriter)

-- True, or an error that says what is wrong with the key.
create function pathmirror.is_key(key text) returns boolean
language plpgsql immutable strict parallel safe as $$
declare
    forbidden text := substring(key from '[].#$/[\x01-\x1f\x7f]');
begin
    if key = '' then
        raise exception 'a key is empty' using errcode = 'invalid_parameter_value';
    elsif octet_length(key) > 768 then
        raise exception 'the key "%…" has % bytes, more than 768', left(key, 40), octet_length(key)
            using errcode = 'invalid_parameter_value';
    elsif forbidden < ' ' or forbidden = chr(127) then
        raise exception 'the key % contains a control character', to_json(key) using errcode = 'invalid_parameter_value';
    elsif forbidden is not null then
        raise exception 'the key % contains "%"', to_json(key), forbidden using errcode = 'invalid_parameter_value';
    end if;
    return true;
end
$$;

-- A path's keys, checked. The last may be .priority.
create function pathmirror.path_keys(path text) returns text[]
language plpgsql immutable strict parallel safe as $$
declare
    keys text[] := array_remove(string_to_array(path, '/'), '');
    names_priority boolean := coalesce(keys[cardinality(keys)] = '.priority', false);
    depth integer := cardinality(keys) - names_priority::integer;
begin
    perform pathmirror.is_key(keys[position]) from generate_series(1, depth) as position;
    if depth > 32 then
        raise exception 'the path has % keys, more than 32', depth using errcode = 'invalid_parameter_value';
    end if;
    return keys;
end
$$;

-- How many bytes of a long path are its row's key: 2,000, or a little less so as not to cut a character.
create function pathmirror.path_cut(path bytea) returns integer
language plpgsql immutable strict parallel safe as $$
declare
    cut integer := 2000;
begin
    while get_byte(path, cut) & 192 = 128 loop
        cut := cut - 1;
    end loop;
    return cut;
end
$$;

-- What becomes of a path over 2,000 bytes, as index rows have to stay under 2.7 kB: see pathmirror.node.
create function pathmirror.long_key(path text) returns text
language sql immutable strict parallel safe as $$
    select convert_from(substr(convert_to(path, 'UTF8'), 1, pathmirror.path_cut(convert_to(path, 'UTF8'))), 'UTF8')
        || '#' || encode(sha256(convert_to(path, 'UTF8')), 'hex')
$$;

create function pathmirror.long_rest(path text) returns text
language sql immutable strict parallel safe as $$
    select convert_from(substr(convert_to(path, 'UTF8'), pathmirror.path_cut(convert_to(path, 'UTF8')) + 1), 'UTF8')
$$;

-- The columns "path" and "rest" of a leaf's row in pathmirror.node. (Not strict, so that they can be inlined.)
create function pathmirror.stored_key(path text) returns text
language sql immutable parallel safe as $$
    select case when octet_length(path) <= 2000 then path else pathmirror.long_key(path) end
$$;

create function pathmirror.stored_rest(path text) returns text
language sql immutable parallel safe as $$
    select case when octet_length(path) > 2000 then pathmirror.long_rest(path) end
$$;

-- Where the rows at and below a place are: one key, and one range of keys. The root's place is ''.
create type pathmirror.node_range as (
    own_key text, low text, high text,
    -- Set where the range also holds others, which don't begin with this.
    beginning text
);

create function pathmirror.node_range(place text) returns pathmirror.node_range
language plpgsql immutable strict parallel safe as $$
declare
    below text := place || '/';
    prefix text;
begin
    if place = '' then
        return ('/', '/', '0', null)::pathmirror.node_range;
    elsif octet_length(below) <= 2000 then
        -- 0 is the character behind the slash.
        return (place, below, place || '0', null)::pathmirror.node_range;
    end if;
    -- All that begins alike up to the cut.
    prefix := split_part(pathmirror.stored_key(below), '#', 1);
    return (pathmirror.stored_key(place), prefix || '#', prefix || '$', below)::pathmirror.node_range;
end
$$;

-- A number as the tree holds it: an integer of 64 bits, or else the nearest double. Wants extra_float_digits = 1.
create function pathmirror.number_text(number numeric) returns text
language plpgsql immutable strict parallel safe as $$
declare
    nearest double precision;
begin
    if scale(number) = 0 and number between -9223372036854775808 and 9223372036854775807 then
        return number::text;
    elsif abs(number) > 1.7976931348623157e308 then
        raise exception 'the number is out of range' using errcode = 'invalid_parameter_value';
    end if;
    nearest := case when abs(number) < 5e-324 then 0 else number::double precision end;
    if abs(nearest) <= 9007199254740992 and nearest = trunc(nearest) then
        return nearest::bigint::text;
    end if;
    return nearest::text;
end
$$;

-- Whether two scalars are the same value to the tree. Integers and doubles are two kinds.
create function pathmirror.same_scalar(first json, second json) returns boolean
language plpgsql immutable strict parallel safe as $$
begin
    if first::text = second::text then
        return true;
    elsif json_typeof(first) <> json_typeof(second) or json_typeof(first) not in ('string', 'number') then
        return false;
    elsif json_typeof(first) = 'number' then
        -- Integers are written in one way only; of doubles, −0 and 0 are two.
        return first::text ~ '[.eE]' and second::text ~ '[.eE]'
            and first::text::double precision = second::text::double precision
            and (left(first::text, 1) = '-') = (left(second::text, 1) = '-');
    end if;
    -- What holds U+0000 is written in one way only, by the gateways.
    return position('\u0000' in first::text) = 0 and position('\u0000' in second::text) = 0
        and first::text::jsonb = second::text::jsonb;
end
$$;

-- What a server value is at the place that it is written to.
create function pathmirror.server_value(
    of_namespace bigint, place text, asked jsonb, milliseconds bigint
) returns jsonb
language plpgsql stable as $$
declare
    delta numeric;
    base json;
    total numeric;
begin
    if asked = '"timestamp"' then
        return to_jsonb(milliseconds);
    elsif jsonb_typeof(asked) is distinct from 'object' or jsonb_typeof(asked -> 'increment') is distinct from 'number'
        or asked - 'increment' <> '{}' then
        raise exception 'the server value at % is neither "timestamp" nor {"increment": number}', coalesce(nullif(place, ''), '/')
            using errcode = 'invalid_parameter_value';
    end if;
    delta := pathmirror.number_text((asked -> 'increment')::numeric)::numeric;
    select node.value into base from pathmirror.node
    where node.namespace_id = of_namespace and node.path = pathmirror.stored_key(coalesce(nullif(place, ''), '/'));
    if base is null or json_typeof(base) <> 'number' then
        return to_jsonb(delta);
    end if;
    if base::text !~ '[.eE]' and scale(delta) = 0 then
        total := base::text::numeric + delta;
        if total between -9223372036854775808 and 9223372036854775807 then
            return to_jsonb(total);
        end if;
    end if;
    begin
        return to_jsonb((base::text::double precision + delta::double precision)::numeric);
    exception when numeric_value_out_of_range then
        return to_jsonb(sign(delta) * 1.7976931348623157e308::numeric);
    end;
end
$$;

-- A value as the log has it: checked, arrays as objects, nulls and empty objects gone, server values filled in. NULL for
-- nothing. `depth`: how many keys lead here.
create function pathmirror.export_form(
    value jsonb, of_namespace bigint, place text, depth integer, milliseconds bigint
) returns jsonb
language plpgsql stable as $$
declare
    children jsonb;
    leaf jsonb;
    priority jsonb;
    shown text := coalesce(nullif(place, ''), '/');
begin
    if value is null then
        return null;
    end if;
    case jsonb_typeof(value)
        when 'null' then return null;
        when 'boolean' then return value;
        when 'number' then return pathmirror.number_text(value::numeric)::jsonb;
        when 'string' then
            if octet_length(value #>> '{}') > 10485760 then
                raise exception 'the string at % has more than 10485760 bytes', shown using errcode = 'invalid_parameter_value';
            end if;
            return value;
        else
    end case;
    if depth > 34 then
        raise exception 'the data would be more than 32 levels deep' using errcode = 'invalid_parameter_value';
    end if;
    if jsonb_typeof(value) = 'array' then
        select jsonb_object_agg(child.key, child.value) filter (where child.value is not null) into children
        from (
            select (element.position - 1)::text as key,
                pathmirror.export_form(
                    element.value, of_namespace, place || '/' || (element.position - 1), depth + 1, milliseconds) as value
            from jsonb_array_elements(value) with ordinality as element (value, position)
            offset 0
        ) as child;
    else
        select jsonb_object_agg(child.key, child.value) filter (where child.value is not null) into children
        from (
            select member.key,
                pathmirror.export_form(
                    member.value, of_namespace, place || '/' || member.key, depth + 1, milliseconds) as value
            from jsonb_each(value) as member
            where member.key not in ('.value', '.priority', '.sv') and pathmirror.is_key(member.key)
            offset 0
        ) as child;
        if jsonb_typeof(value -> '.priority') in ('boolean', 'array')
            or (jsonb_typeof(value -> '.priority') = 'object' and not value -> '.priority' ? '.sv')
        then
            raise exception 'the priority at % must be a number or a string', shown using errcode = 'invalid_parameter_value';
        elsif jsonb_typeof(value -> '.value') = 'array'
            or (jsonb_typeof(value -> '.value') = 'object' and not value -> '.value' ? '.sv')
        then
            raise exception 'the .value at % must be a string, number or boolean', shown
                using errcode = 'invalid_parameter_value';
        end if;
        priority := pathmirror.export_form(value -> '.priority', of_namespace, place || '/.priority', 33, milliseconds);
        if value ? '.sv' then
            leaf := pathmirror.server_value(of_namespace, place, value -> '.sv', milliseconds);
        elsif value ? '.value' then
            leaf := pathmirror.export_form(value -> '.value', of_namespace, place, 33, milliseconds);
        end if;
        if leaf is not null then
            if children is not null or (value ? '.sv' and value ? '.value') then
                raise exception 'the object at % has a .value or .sv and something else', shown
                    using errcode = 'invalid_parameter_value';
            end if;
            return case when priority is null then leaf else jsonb_build_object('.value', leaf, '.priority', priority) end;
        end if;
    end if;
    if children is null then
        return null;
    elsif depth >= 32 then
        raise exception 'the data would be more than 32 levels deep' using errcode = 'invalid_parameter_value';
    end if;
    return case when priority is null then children else children || jsonb_build_object('.priority', priority) end;
end
$$;

-- The rows of a value in export form at a place.
create function pathmirror.leaf_rows(value jsonb, place text) returns table (path text, leaf text)
language sql immutable strict parallel safe as $$
    with recursive walk (path, value) as (
        select place, value
        union all
        select case when child.key = '.value' then walk.path else walk.path || '/' || child.key end, child.value
        from walk
        cross join lateral jsonb_each(case when jsonb_typeof(walk.value) = 'object' then walk.value end) as child
    )
    select coalesce(nullif(walk.path, ''), '/'),
        case jsonb_typeof(walk.value)
            when 'number' then pathmirror.number_text(walk.value::numeric)
            else walk.value::text
        end
    from walk where jsonb_typeof(walk.value) <> 'object'
$$;

-- Writing: what Node.replacing and RowDiff do in a gateway, done to the rows

-- Puts these rows where everything at and below a place is now; with none, removes it. Rows that stay as they are keep
-- their version.
create function pathmirror.replace_rows(
    of_namespace bigint, at_seq bigint, place text, new_paths text[], new_values text[]
) returns void
language plpgsql as $$
declare
    bounds pathmirror.node_range := pathmirror.node_range(place);
    keys text[];
    removed bigint;
begin
    if cardinality(new_paths) = 0 then
        delete from pathmirror.node
        where node.namespace_id = of_namespace
            and (node.path = bounds.own_key or (node.path >= bounds.low and node.path < bounds.high))
            and (bounds.beginning is null or node.path = bounds.own_key
                or starts_with(pathmirror.full_path(node.path, node.rest), bounds.beginning));
        get diagnostics removed = row_count;
        -- Ancestors that are empty now go with their priorities.
        while removed > 0 and place <> '' loop
            place := left(place, length(place) - strpos(reverse(place), '/'));
            bounds := pathmirror.node_range(place);
            exit when exists (
                select from pathmirror.node
                where node.namespace_id = of_namespace and node.path >= bounds.low and node.path < bounds.high
                    and (bounds.beginning is null
                        or starts_with(pathmirror.full_path(node.path, node.rest), bounds.beginning))
                    and node.path <> pathmirror.stored_key(place || '/.priority'));
            delete from pathmirror.node
            where node.namespace_id = of_namespace and node.path = pathmirror.stored_key(place || '/.priority');
        end loop;
        return;
    end if;
    -- Leaves on the way become branches.
    if place <> '' then
        keys := string_to_array(substr(place, 2), '/');
        delete from pathmirror.node
        where node.namespace_id = of_namespace and node.path = any (array(
            select pathmirror.stored_key('/' || array_to_string(keys[1:depth], '/'))
            from generate_series(0, cardinality(keys) - 1) as depth));
    end if;
    keys := array(select pathmirror.stored_key(path) from unnest(new_paths) with ordinality as new (path, n) order by n);
    delete from pathmirror.node
    where node.namespace_id = of_namespace
        and (node.path = bounds.own_key or (node.path >= bounds.low and node.path < bounds.high))
        and (bounds.beginning is null or node.path = bounds.own_key
            or starts_with(pathmirror.full_path(node.path, node.rest), bounds.beginning))
        and not exists (select from unnest(keys) as kept (path) where kept.path = node.path);
    insert into pathmirror.node (namespace_id, path, rest, value, version)
    select of_namespace, new.key, pathmirror.stored_rest(new.path), new.value::json, at_seq
    from unnest(keys, new_paths, new_values) as new (key, path, value)
    on conflict (namespace_id, path) do update set value = excluded.value, version = excluded.version
    where not pathmirror.same_scalar(node.value, excluded.value);
end
$$;

-- Sets or removes the priority of what is at a place; of nothing, nothing.
create function pathmirror.replace_priority(
    of_namespace bigint, at_seq bigint, place text, new_values text[]
) returns void
language plpgsql as $$
declare
    bounds pathmirror.node_range := pathmirror.node_range(place);
    full_path text := place || '/.priority';
begin
    if cardinality(new_values) = 0 then
        delete from pathmirror.node
        where node.namespace_id = of_namespace and node.path = pathmirror.stored_key(full_path);
        return;
    end if;
    if not exists (
        select from pathmirror.node
        where node.namespace_id = of_namespace
            and (node.path = bounds.own_key or (node.path >= bounds.low and node.path < bounds.high))
            and (bounds.beginning is null or node.path = bounds.own_key
                or starts_with(pathmirror.full_path(node.path, node.rest), bounds.beginning)))
    then
        return;
    end if;
    insert into pathmirror.node (namespace_id, path, rest, value, version)
    values (
        of_namespace, pathmirror.stored_key(full_path), pathmirror.stored_rest(full_path), new_values[1]::json, at_seq)
    on conflict (namespace_id, path) do update set value = excluded.value, version = excluded.version
    where not pathmirror.same_scalar(node.value, excluded.value);
end
$$;

-- One change of an entry, with the rows of its value: none to remove.
create function pathmirror.apply_change(
    of_namespace bigint, at_seq bigint, path text, new_paths text[], new_values text[]
) returns void
language plpgsql as $$
begin
    if path like '%/.priority' then
        perform pathmirror.replace_priority(of_namespace, at_seq, left(path, -length('/.priority')), new_values);
    else
        perform pathmirror.replace_rows(of_namespace, at_seq, case path when '/' then '' else path end, new_paths, new_values);
    end if;
end
$$;

-- Takes the lock of a namespace's head until the transaction ends, and returns the seq that comes next.
create function pathmirror.begin_entry(of_namespace bigint) returns bigint
language plpgsql as $$
declare
    next_seq bigint;
    has_partition boolean;
begin
    select head + 1, partitioned_to > head + 1 into strict next_seq, has_partition
    from pathmirror.namespace where id = of_namespace for update;
    if not has_partition then
        perform pathmirror.ensure_log_partition(of_namespace, next_seq, 1000000);
    end if;
    return next_seq;
end
$$;

-- Puts an entry, whose changes are applied, at the end of the log.
create function pathmirror.finish_entry(
    of_namespace bigint, at_seq bigint, op text, path text, changes json, parts integer, origin json
) returns void
language plpgsql as $$
begin
    perform pathmirror.advance(of_namespace, at_seq - 1, 1);
    insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes, parts, origin)
    values (
        of_namespace, at_seq, clock_timestamp(),
        -- The same for all entries of the transaction.
        md5('pathmirror sql ' || pg_current_xact_id()::text || (select id::text from pathmirror.installation))::uuid,
        op, path, changes, parts, origin);
    perform pg_notify('pathmirror', of_namespace || ' ' || at_seq);
end
$$;

-- An entry of changes that are given with their rows, all in one list: the rows of change n end at ends[n].
create function pathmirror.append_entry(
    of_namespace bigint, at_seq bigint, op text, path text, changes json, origin json, change_paths text[], ends integer[],
    row_paths text[], row_values text[]
) returns void
language plpgsql as $$
declare
    first integer := 1;
begin
    for n in 1 .. cardinality(change_paths) loop
        perform pathmirror.apply_change(
            of_namespace, at_seq, change_paths[n], row_paths[first:ends[n]], row_values[first:ends[n]]);
        first := ends[n] + 1;
    end loop;
    perform pathmirror.finish_entry(of_namespace, at_seq, op, path, changes, 0, origin);
end
$$;

-- Checks, resolves, applies and logs one write from SQL. `paths` are whole, and none lies at or below another.
create function pathmirror.write(
    of_namespace bigint, op text, path text, paths text[], given jsonb[], by_role text
) returns bigint
language plpgsql as $$
declare
    at_seq bigint := pathmirror.begin_entry(of_namespace);
    milliseconds bigint := (extract(epoch from clock_timestamp()) * 1000)::bigint;
    resolved jsonb[];
    place text;
    changes text;
    new_paths text[];
    new_values text[];
begin
    -- All against the tree as it is, before any of them is applied.
    for n in 1 .. cardinality(paths) loop
        place := case paths[n] when '/' then '' else paths[n] end;
        resolved[n] := pathmirror.export_form(
            given[n], of_namespace, place,
            case when place like '%/.priority' then 0 else cardinality(string_to_array(place, '/')) - 1 end, milliseconds);
        if place like '%/.priority' then
            if jsonb_typeof(resolved[n]) not in ('number', 'string') then
                raise exception 'the priority at % must be a number or a string', place
                    using errcode = 'invalid_parameter_value';
            end if;
        elsif cardinality(string_to_array(place, '/')) - 1 > 32 then
            raise exception 'the path % has more than 32 keys', place using errcode = 'invalid_parameter_value';
        end if;
    end loop;
    for n in 1 .. cardinality(paths) loop
        continue when paths[n] not like '%/.priority' or resolved[n] is null;
        place := left(paths[n], -length('/.priority'));
        if pathmirror.has_node(of_namespace, place) or exists (
            select from generate_series(1, cardinality(paths)) as other
            where resolved[other] is not null and paths[other] not like '%/.priority'
                and (place = paths[other] or paths[other] = '/' or starts_with(place, paths[other] || '/')))
        then
            continue;
        end if;
        raise exception 'there is nothing at % that could have a priority', coalesce(nullif(place, ''), '/')
            using errcode = 'invalid_parameter_value';
    end loop;
    for n in 1 .. cardinality(paths) loop
        select coalesce(array_agg(row.path), '{}'), coalesce(array_agg(row.leaf), '{}') into new_paths, new_values
        from pathmirror.leaf_rows(resolved[n], case paths[n] when '/' then '' else paths[n] end) as row;
        perform pathmirror.apply_change(of_namespace, at_seq, paths[n], new_paths, new_values);
    end loop;
    select '{' || string_agg(to_json(paths[n])::text || ':' || coalesce(resolved[n]::text, 'null'), ',' order by n) || '}'
    into changes from generate_series(1, cardinality(paths)) as n;
    perform pathmirror.finish_entry(
        of_namespace, at_seq, op, path, changes::json, 0,
        json_build_object('uid', null, 'admin', true, 'via', 'sql', 'role', by_role));
    return at_seq;
end
$$;

-- Whether anything is at a place.
create function pathmirror.has_node(of_namespace bigint, place text) returns boolean
language plpgsql stable as $$
declare
    bounds pathmirror.node_range := pathmirror.node_range(place);
begin
    return exists (
        select from pathmirror.node
        where node.namespace_id = of_namespace
            and (node.path = bounds.own_key or (node.path >= bounds.low and node.path < bounds.high))
            and (bounds.beginning is null or node.path = bounds.own_key
                or starts_with(pathmirror.full_path(node.path, node.rest), bounds.beginning)));
end
$$;

create function pathmirror.namespace_id(namespace text) returns bigint
language plpgsql stable as $$
declare
    found bigint;
begin
    select known.id into found from pathmirror.namespace as known where known.name = namespace_id.namespace;
    if found is null then
        raise exception 'there is no namespace "%"', namespace using errcode = 'no_data_found';
    end if;
    return found;
end
$$;

-- For everybody who is granted it

create function pathmirror.set(namespace text, path text, value jsonb) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set extra_float_digits = 1 as $$
declare
    full_path text := '/' || array_to_string(pathmirror.path_keys(path), '/');
begin
    if path is null or value is null then
        raise exception 'the % is NULL', case when path is null then 'path' else 'value' end
            using errcode = 'null_value_not_allowed',
                hint = 'To remove what is there, call pathmirror.remove, or give ''null''::jsonb.';
    end if;
    return pathmirror.write(
        pathmirror.namespace_id(namespace), case value when 'null' then 'remove' else 'set' end, full_path,
        array[full_path], array[value], session_user);
end
$$;

comment on function pathmirror.set(text, text, jsonb) is
    'Replaces what is at a path, as one entry of the log; returns its seq. For administrators: rules are not asked.';

create function pathmirror.remove(namespace text, path text) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
    select pathmirror.set(namespace, path, 'null')
$$;

comment on function pathmirror.remove(text, text) is 'Removes what is at a path, as one entry of the log; returns its seq.';

create function pathmirror.update(namespace text, path text, value jsonb) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set extra_float_digits = 1 as $$
declare
    base text[] := pathmirror.path_keys(path);
    base_path text := '/' || array_to_string(base, '/');
    of_namespace bigint := pathmirror.namespace_id(namespace);
    paths text[];
    given jsonb[];
    ancestor text;
    descendant text;
begin
    if path is null or value is null then
        raise exception 'the % is NULL', case when path is null then 'path' else 'value' end
            using errcode = 'null_value_not_allowed';
    elsif jsonb_typeof(value) <> 'object' then
        raise exception 'an update must be an object of paths and values, not %', jsonb_typeof(value)
            using errcode = 'invalid_parameter_value';
    elsif base[cardinality(base)] = '.priority' then
        raise exception 'a priority has no children to update' using errcode = 'invalid_parameter_value';
    end if;
    select array_agg('/' || array_to_string(base || member.keys, '/') order by member.n),
        array_agg(member.value order by member.n)
    into paths, given
    from (
        select pathmirror.path_keys(pair.key) as keys, pair.value, pair.n
        from jsonb_each(value) with ordinality as pair (key, value, n)
        -- What is nothing but slashes names no child.
        where case when translate(pair.key, '/', '') = '' then pathmirror.is_key(translate(pair.key, '/', '')) else true end
        offset 0
    ) as member;
    if paths is null then
        -- An update of nothing is no write.
        return (select head from pathmirror.namespace where id = of_namespace);
    end if;
    -- In this order a path's first descendant, if it has any, comes right behind it.
    select before, path_here into ancestor, descendant
    from (
        select here.path as path_here, lag(here.path) over (order by replace(here.path, '/', chr(1)) collate "C") as before
        from unnest(paths) as here (path)
    ) as pairs
    where path_here = before or starts_with(path_here, before || '/')
    limit 1;
    if ancestor = descendant then
        raise exception '% is in the update twice', ancestor using errcode = 'invalid_parameter_value';
    elsif ancestor is not null then
        raise exception '% is an ancestor of % in the same update', ancestor, descendant
            using errcode = 'invalid_parameter_value';
    end if;
    return pathmirror.write(of_namespace, 'update', base_path, paths, given, session_user);
end
$$;

comment on function pathmirror.update(text, text, jsonb) is
    'Replaces what is at several paths below one, as one entry of the log; returns its seq. Keys may be paths.';

-- What is at and below a path, as JSON text: everything, U+0000 included.
create function pathmirror.get_json(namespace text, path text default '/') returns json
language plpgsql stable as $$
declare
    of_namespace bigint := pathmirror.namespace_id(namespace);
    keys text[] := pathmirror.path_keys(path);
    place text := case when keys = '{}' then '' else '/' || array_to_string(keys, '/') end;
    bounds pathmirror.node_range := pathmirror.node_range(place);
begin
    return (
        with stored as (
            select string_to_array(substr(pathmirror.full_path(node.path, node.rest), length(place) + 2), '/') as parts,
                node.value::text as leaf,
                -- Slashes sort below everything that keys may hold: then what begins with a path follows it at once.
                row_number() over (
                    order by replace(pathmirror.full_path(node.path, node.rest), '/', chr(1)) collate "C") as n
            from pathmirror.node
            where node.namespace_id = of_namespace
                and (node.path = bounds.own_key or (node.path >= bounds.low and node.path < bounds.high))
                and (bounds.beginning is null or node.path = bounds.own_key
                    or starts_with(pathmirror.full_path(node.path, node.rest), bounds.beginning))
        ), marked as (
            select n, leaf,
                case when lead(parts) over (order by n) = parts || '.priority'::text then parts || '.value'::text
                    else parts end as parts
            from stored
        ), placed as (
            select n, leaf, parts, cardinality(parts) as depth,
                pathmirror.shared_keys(lag(parts) over (order by n), parts) as opened,
                pathmirror.shared_keys(parts, lead(parts) over (order by n)) as kept
            from marked
        )
        select case
            when min(depth) = 0 then min(leaf)
            when count(*) > 0 then '{' || string_agg(
                case when n > 1 then ',' else '' end
                || coalesce((
                    select string_agg(to_json(parts[level])::text || ':{', '' order by level)
                    from generate_series(opened + 1, depth - 1) as level), '')
                || to_json(parts[depth])::text || ':' || leaf || repeat('}', depth - 1 - kept), '' order by n) || '}'
        end::json
        from placed);
end
$$;

comment on function pathmirror.get_json(text, text) is
    'What is at a path, priorities included, as json (which, unlike jsonb, can hold U+0000); NULL for nothing.';

-- How many keys two paths have in common at their beginning.
create function pathmirror.shared_keys(first text[], second text[]) returns integer
language sql immutable parallel safe as $$
    select count(*)::integer from generate_subscripts(first, 1) as level where first[1:level] = second[1:level]
$$;

-- Without priorities, and with arrays where the keys look like one, as plain REST reads have it.
create function pathmirror.plain_form(value jsonb) returns jsonb
language plpgsql immutable strict parallel safe as $$
declare
    result jsonb;
begin
    if jsonb_typeof(value) <> 'object' then
        return value;
    elsif value ? '.value' then
        return value -> '.value';
    end if;
    value := value - '.priority';
    if not exists (select from jsonb_object_keys(value) as key where key !~ '^(0|[1-9][0-9]{0,9})$')
        and (select max(key::bigint) < least(2147483648, 2 * count(*)) from jsonb_object_keys(value) as key)
    then
        select jsonb_agg(coalesce(pathmirror.plain_form(value -> position::text), 'null') order by position) into result
        from generate_series(0, (select max(key::bigint) from jsonb_object_keys(value) as key)) as position;
        return result;
    end if;
    select jsonb_object_agg(member.key, pathmirror.plain_form(member.value)) into result from jsonb_each(value) as member;
    return result;
end
$$;

create function pathmirror.get(namespace text, path text default '/', form text default 'export') returns jsonb
language plpgsql stable as $$
declare
    found jsonb;
begin
    if form not in ('export', 'plain') then
        raise exception 'the form is "export" or "plain", not "%"', form using errcode = 'invalid_parameter_value';
    end if;
    begin
        found := pathmirror.get_json(namespace, path)::text::jsonb;
    exception when untranslatable_character then
        raise exception 'a string at or below % holds U+0000, which jsonb can''t', path
            using errcode = 'untranslatable_character', hint = 'pathmirror.get_json returns json, which can.';
    end;
    return case form when 'plain' then pathmirror.plain_form(found) else found end;
end
$$;

comment on function pathmirror.get(text, text, text) is
    'What is at a path: in export form with priorities, or plain with arrays as REST reads it; NULL for nothing.';

-- Waits until the namespace's mirrors in this database, or the one that is named, have come to a seq (default: the head
-- as it is now). Returns the seq that they have come to.
create function pathmirror.wait_for(
    namespace text, seq bigint default null, timeout interval default '30 seconds', mirror text default null
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    of_namespace bigint := pathmirror.namespace_id(namespace);
    deadline timestamptz := clock_timestamp() + timeout;
    pause double precision := 0.001;
    wanted bigint := seq;
    head_now bigint;
    behind text;
    reached bigint;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'wait_for sees nothing new in a % transaction: call it before', current_setting('transaction_isolation')
            using errcode = 'invalid_transaction_state';
    end if;
    if mirror is not null and not exists (
        select from pathmirror.mirror as known
        where known.namespace_id = of_namespace and known.name = wait_for.mirror and known.target is null)
    then
        raise exception 'namespace "%" has no mirror "%" in this database', namespace, mirror using errcode = 'no_data_found';
    end if;
    loop
        select head into head_now from pathmirror.namespace where id = of_namespace;
        wanted := coalesce(wanted, head_now);
        select min(coalesce(own.seq, -1)),
            string_agg(format('%s (at %s)', known.name, coalesce(own.seq::text, 'its beginning')), ', ')
                filter (where coalesce(own.seq, -1) < wanted)
        into reached, behind
        from pathmirror.mirror as known
        left join pathmirror.mirror_cursor as own
            on own.namespace_id = known.namespace_id and own.mirror = known.id
        where known.namespace_id = of_namespace and known.target is null
            and (wait_for.mirror is null or known.name = wait_for.mirror);
        reached := least(coalesce(reached, head_now), head_now);
        if reached >= wanted then
            return reached;
        elsif clock_timestamp() >= deadline then
            raise exception 'not at seq % within %: %', wanted, timeout,
                case when head_now < wanted then format('the head is %s', head_now) else 'behind are ' || behind end
                using errcode = 'PM003';
        end if;
        perform pg_sleep(least(pause, greatest(0, extract(epoch from deadline - clock_timestamp()))));
        pause := least(pause * 2, 0.05);
    end loop;
end
$$;

comment on function pathmirror.wait_for(text, bigint, interval, text) is
    'Waits until the mirrors have come to a seq; raises PM003 when they have not in time. A statement of its own.';

-- Who may do what

do $$
declare
    role_name text;
begin
    foreach role_name in array array['pathmirror_reader', 'pathmirror_writer'] loop
        if not exists (select from pg_roles where rolname = role_name) then
            begin
                execute format('create role %I nologin', role_name);
            exception
                when duplicate_object or unique_violation then null;
                when insufficient_privilege then
                    raise notice 'role % was not created: an administrator can, and grant as docs/sql.md says', role_name;
            end;
        end if;
    end loop;
end
$$;

revoke execute on all functions in schema pathmirror from public;

do $$
declare
    role_name text;
begin
    for role_name in select rolname from pg_roles where rolname in ('pathmirror_reader', 'pathmirror_writer') loop
        execute format('grant usage on schema pathmirror to %I', role_name);
        execute format(
            'grant select on pathmirror.namespace, pathmirror.log, pathmirror.log_part, pathmirror.node, '
            'pathmirror.snapshot, pathmirror.snapshot_chunk, pathmirror.log_entry, pathmirror.log_change, '
            'pathmirror.log_cursor, pathmirror.mirror_status to %I', role_name);
        execute format(
            'grant execute on function pathmirror.get(text, text, text), pathmirror.get_json(text, text), '
            'pathmirror.plain_form(jsonb), pathmirror.shared_keys(text[], text[]), pathmirror.namespace_id(text), '
            'pathmirror.each_change(json), '
            'pathmirror.path_keys(text), pathmirror.is_key(text), pathmirror.path_cut(bytea), '
            'pathmirror.stored_key(text), pathmirror.long_key(text), pathmirror.node_range(text), pathmirror.full_path(text, text), '
            'pathmirror.wait_for(text, bigint, interval, text) to %I', role_name);
    end loop;
    if exists (select from pg_roles where rolname = 'pathmirror_writer') then
        grant execute on function pathmirror.set(text, text, jsonb), pathmirror.update(text, text, jsonb),
            pathmirror.remove(text, text) to pathmirror_writer;
    end if;
end
$$;
