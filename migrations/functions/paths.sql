-- Functions that check keys and paths, and that convert paths to the keys of pathmirror.node.

-- Returns true, or raises an error that describes the problem with the key.
create or replace function pathmirror.is_key(key text) returns boolean
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

-- Checks a path and returns its keys. The last key may be .priority.
create or replace function pathmirror.path_keys(path text) returns text[]
language plpgsql immutable strict parallel safe as $$
declare
    keys text[] := array_remove(string_to_array(path, '/'), '');
    depth integer := cardinality(keys);
begin
    -- A path without forbidden characters needs no check of its keys if it is too short to contain a key over the limit.
    if octet_length(path) > 768 or path ~ '[].#$[\x01-\x1f\x7f]' then
        depth := depth - coalesce(keys[depth] = '.priority', false)::integer;
        for n in 1 .. depth loop
            perform pathmirror.is_key(keys[n]);
        end loop;
    end if;
    if depth > 32 then
        raise exception 'the path has % keys, more than 32', depth using errcode = 'invalid_parameter_value';
    end if;
    return keys;
end
$$;

-- Returns how many bytes of a long path are in the key of its row: 2,000, or fewer so as not to split a character.
create or replace function pathmirror.path_cut(path bytea) returns integer
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

-- Returns the key of a path over 2,000 bytes. Index rows must be smaller than 2.7 kB: see pathmirror.node.
create or replace function pathmirror.long_key(path text) returns text
language sql immutable strict parallel safe as $$
    select convert_from(substr(convert_to(path, 'UTF8'), 1, pathmirror.path_cut(convert_to(path, 'UTF8'))), 'UTF8')
        || '#' || encode(sha256(convert_to(path, 'UTF8')), 'hex')
$$;

create or replace function pathmirror.long_rest(path text) returns text
language sql immutable strict parallel safe as $$
    select convert_from(substr(convert_to(path, 'UTF8'), pathmirror.path_cut(convert_to(path, 'UTF8')) + 1), 'UTF8')
$$;

-- Return the columns "path" and "rest" of a leaf's row in pathmirror.node. (They are not strict, so that PostgreSQL can inline
-- them.)
create or replace function pathmirror.stored_key(path text) returns text
language sql immutable parallel safe as $$
    select case when octet_length(path) <= 2000 then path else pathmirror.long_key(path) end
$$;

create or replace function pathmirror.stored_rest(path text) returns text
language sql immutable parallel safe as $$
    select case when octet_length(path) > 2000 then pathmirror.long_rest(path) end
$$;

-- Returns the complete path of a row of pathmirror.node.
create or replace function pathmirror.full_path(path text, rest text) returns text
language sql immutable parallel safe as $$
    select case when rest is null then path else left(path, position('#' in path) - 1) || rest end
$$;

create or replace function pathmirror.node_range(place text) returns pathmirror.node_range
language plpgsql immutable strict parallel safe as $$
declare
    below text := place || '/';
    prefix text;
begin
    if place = '' then
        return ('/', '/', '0', null)::pathmirror.node_range;
    elsif octet_length(below) <= 2000 then
        -- The character 0 follows the slash.
        return (place, below, place || '0', null)::pathmirror.node_range;
    end if;
    -- The range contains all paths that have the same bytes up to the cut.
    prefix := split_part(pathmirror.stored_key(below), '#', 1);
    return (pathmirror.stored_key(place), prefix || '#', prefix || '$', below)::pathmirror.node_range;
end
$$;

-- Returns the column "path" of each path above a path, as if a leaf were there.
create or replace function pathmirror.keys_above(place text) returns text[]
language plpgsql immutable strict parallel safe as $$
declare
    keys text[] := string_to_array(place, '/');
    above text[] := '{}';
begin
    for depth in 1 .. cardinality(keys) - 1 loop
        above[depth] := coalesce(nullif(pathmirror.stored_key(array_to_string(keys[1:depth], '/')), ''), '/');
    end loop;
    return above;
end
$$;

-- Returns the column "path" of the priority of each path above a path.
create or replace function pathmirror.priorities_above(place text) returns text[]
language plpgsql immutable strict parallel safe as $$
declare
    keys text[] := string_to_array(place, '/');
    above text[] := '{}';
begin
    for depth in 1 .. cardinality(keys) - 1 loop
        above[depth] := pathmirror.stored_key(array_to_string(keys[1:depth], '/') || '/.priority');
    end loop;
    return above;
end
$$;
