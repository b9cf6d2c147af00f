-- How keys and paths are checked, and how the rows of pathmirror.node are named by them.

-- True, or an error that says what is wrong with the key.
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

-- A path's keys, checked. The last may be .priority.
create or replace function pathmirror.path_keys(path text) returns text[]
language plpgsql immutable strict parallel safe as $$
declare
    keys text[] := array_remove(string_to_array(path, '/'), '');
    depth integer := cardinality(keys);
begin
    -- Nothing that a key may not have, and too short for a key that is too long.
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

-- How many bytes of a long path are its row's key: 2,000, or a little less so as not to cut a character.
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

-- What becomes of a path over 2,000 bytes, as index rows have to stay under 2.7 kB: see pathmirror.node.
create or replace function pathmirror.long_key(path text) returns text
language sql immutable strict parallel safe as $$
    select convert_from(substr(convert_to(path, 'UTF8'), 1, pathmirror.path_cut(convert_to(path, 'UTF8'))), 'UTF8')
        || '#' || encode(sha256(convert_to(path, 'UTF8')), 'hex')
$$;

create or replace function pathmirror.long_rest(path text) returns text
language sql immutable strict parallel safe as $$
    select convert_from(substr(convert_to(path, 'UTF8'), pathmirror.path_cut(convert_to(path, 'UTF8')) + 1), 'UTF8')
$$;

-- The columns "path" and "rest" of a leaf's row in pathmirror.node. (Not strict, so that they can be inlined.)
create or replace function pathmirror.stored_key(path text) returns text
language sql immutable parallel safe as $$
    select case when octet_length(path) <= 2000 then path else pathmirror.long_key(path) end
$$;

create or replace function pathmirror.stored_rest(path text) returns text
language sql immutable parallel safe as $$
    select case when octet_length(path) > 2000 then pathmirror.long_rest(path) end
$$;

-- The whole path of a row of node.
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
        -- 0 is the character behind the slash.
        return (place, below, place || '0', null)::pathmirror.node_range;
    end if;
    -- All that begins alike up to the cut.
    prefix := split_part(pathmirror.stored_key(below), '#', 1);
    return (pathmirror.stored_key(place), prefix || '#', prefix || '$', below)::pathmirror.node_range;
end
$$;

-- The columns "path" of the leaves that the places above a place would have, one for each, where they are leaves.
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

-- Those of their priorities.
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
