-- Mirrors no longer have unique indexes with waiting records, generated columns, partitions, or tables of versions. This migration
-- takes them out of the stored definitions. Tables stay as they are: a unique index is from now on one that somebody made by hand, and a
-- generated column stays until the table is made anew. A table with partitions, or of versions, has other columns or another primary
-- key than its mirror writes, so that its mirror is broken until "pathmirror replay mirror" makes the table anew. What was a table of
-- versions becomes a table of changes, which is made of the same rows of mirror_version.

-- mirror_waiting and mirror_freed stay, empty, as gateways of the version before clear them together with every table.

do $$
declare
    known record;
begin
    for known in
        select * from (values ('mirror', ', updated_at = clock_timestamp()'), ('mirror_cursor', '')) as place (name, also)
    loop
        execute format(
            $sql$
            update pathmirror.%I as stored set definition = (
                select json_object_agg(
                    member.key,
                    case
                    when member.key = 'keeps' and member.value #>> '{}' = 'versions' then '"changes"'
                    when member.key <> 'indexes' then member.value
                    -- They may be of columns that a table of changes does not have.
                    when stored.definition ->> 'keeps' = 'versions' then '[]'
                    else (
                        select coalesce(json_agg(index.value order by index.number), '[]')
                        from json_array_elements(member.value) with ordinality as index (value, number)
                        where index.value ->> 'unique' is distinct from 'true'
                            and not exists (
                                select from json_array_elements_text(index.value -> 'columns') as used (name)
                                where stored.definition -> 'generated' -> used.name is not null)
                    ) end
                    order by member.number)
                from json_each(stored.definition) with ordinality as member (key, value, number)
                where member.key not in ('generated', 'partition')
            )%s
            where definition ->> 'keeps' = 'versions' or definition -> 'generated' is not null or definition -> 'partition' is not null
                or exists (
                    select from json_array_elements(definition -> 'indexes') as index (value) where index.value ->> 'unique' = 'true')
            $sql$, known.name, known.also);
    end loop;
end
$$;

-- Records that wait have no row, and not all of them an error: "pathmirror replay mirror NAME" looks at all records again.
delete from pathmirror.mirror_waiting;
delete from pathmirror.mirror_freed;
