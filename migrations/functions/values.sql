-- Functions that convert values as gateways do (Sources/Tree: KeyRules, JSONParser, JSONWriter).

-- Returns a number as the tree stores it: a 64-bit integer, or else the nearest double. Requires extra_float_digits = 1.
create or replace function pathmirror.number_text(number numeric) returns text
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

-- Returns whether two scalars with different text are the same value in the tree. An integer and a double are different values.
create or replace function pathmirror.same_value(first json, second json) returns boolean
language plpgsql immutable strict parallel safe as $$
begin
    if json_typeof(first) <> json_typeof(second) or json_typeof(first) not in ('string', 'number') then
        return false;
    elsif json_typeof(first) = 'number' then
        -- An integer has only one text. The doubles −0 and 0 are different values.
        return first::text ~ '[.eE]' and second::text ~ '[.eE]'
            and first::text::double precision = second::text::double precision
            and (left(first::text, 1) = '-') = (left(second::text, 1) = '-');
    end if;
    -- Only gateways write strings with U+0000, and each of them has only one text.
    return position('\u0000' in first::text) = 0 and position('\u0000' in second::text) = 0
        and first::text::jsonb = second::text::jsonb;
end
$$;

-- Returns whether two scalars are the same value. Most calls need only a comparison of texts. (It is not strict, so that
-- PostgreSQL can inline it.)
create or replace function pathmirror.same_scalar(first json, second json) returns boolean
language sql immutable parallel safe as $$
    select case
        when first::text = second::text then true
        when left(first::text, 1) = '"' and strpos(first::text, '\') = 0 and strpos(second::text, '\') = 0 then false
        else pathmirror.same_value(first, second)
    end
$$;

-- Returns the result of a server value at its path.
create or replace function pathmirror.server_value(
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

-- Returns a value as the log stores it, after checks: with objects for arrays, without nulls and empty objects, and with the
-- results of server values. Returns NULL for an empty value. `depth` is the number of keys in the path.
create or replace function pathmirror.export_form(
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

-- Checks and resolves the value of a write, and returns it in export form. Returns NULL if the write removes the data.
create or replace function pathmirror.resolved_value(
    value jsonb, of_namespace bigint, place text, milliseconds bigint
) returns jsonb
language plpgsql stable as $$
declare
    is_priority boolean := place like '%/.priority';
    depth integer := case when is_priority then 0 else length(place) - length(replace(place, '/', '')) end;
    resolved jsonb := pathmirror.export_form(value, of_namespace, place, depth, milliseconds);
begin
    if is_priority and jsonb_typeof(resolved) not in ('number', 'string') then
        raise exception 'the priority at % must be a number or a string', place using errcode = 'invalid_parameter_value';
    elsif depth > 32 then
        raise exception 'the path % has more than 32 keys', place using errcode = 'invalid_parameter_value';
    end if;
    return resolved;
end
$$;

-- Returns the text of a scalar in a row of the tree.
create or replace function pathmirror.scalar_text(scalar jsonb) returns text
language sql immutable parallel safe as $$
    select case jsonb_typeof(scalar) when 'number' then pathmirror.number_text(scalar::numeric) else scalar::text end
$$;

-- Returns the rows of a value in export form at a path.
create or replace function pathmirror.leaf_rows(value jsonb, place text) returns table (path text, leaf text)
language plpgsql immutable strict parallel safe as $$
#variable_conflict use_column
begin
    return query
    with recursive walk (path, value) as (
        select leaf_rows.place, leaf_rows.value
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
    from walk where jsonb_typeof(walk.value) <> 'object';
end
$$;
