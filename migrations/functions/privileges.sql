-- Grants privileges on functions and views. The program applies this file after each change of another file, because PostgreSQL
-- lets PUBLIC execute new functions. The file repeats its own grants. Grants of an administrator to other roles remain.

do $$
declare
    made text;
    granted record;
begin
    -- Only new functions have no privileges yet.
    for made in
        select oid::regprocedure::text from pg_proc where pronamespace = 'pathmirror'::regnamespace and proacl is null
    loop
        execute format('revoke execute on function %s from public', made);
    end loop;

    -- The query omits roles that do not exist: the role that migrates may not have the right to create them.
    for granted in
        select role.rolname as role_name, callable.name
        from pg_roles as role
        join (
            values
                ('pathmirror_gateway', array[
                    'advance(bigint, bigint, bigint)',
                    'append_entries(bigint, bigint, text[], text[], text[], text[], bigint[], text[], bigint[], text[], '
                        || 'text[], uuid, bigint[])',
                    'apply_change(bigint, bigint, text, text[], text[])',
                    'apply_value(bigint, bigint, text, jsonb)',
                    'batch_at(bigint, bigint)',
                    'batch_of(uuid)',
                    'begin_entry(bigint)',
                    'change_text(text, jsonb)',
                    'check_priorities(bigint, text[], jsonb[])',
                    'claim_session(bigint, text)',
                    'claim_session(bigint, text, uuid, bigint)',
                    'drop_log(bigint)',
                    'ensure_log_partition(bigint, bigint, bigint)',
                    'export_form(jsonb, bigint, text, integer, bigint)',
                    'finish_entry(bigint, bigint, text, text, json, integer, json)',
                    'follow_batch(bigint, uuid, bigint, bigint, uuid)',
                    'follow_place_setting(bigint)',
                    'follow_rules(bigint, uuid)',
                    'forget_writers(integer, bigint, bigint, bigint)',
                    'has_node(bigint, text)',
                    'hold_namespace(bigint)',
                    'keys_above(text)',
                    'leaf_rows(jsonb, text)',
                    'lock_head(bigint, tid)',
                    'log_page(bigint, bigint, bigint, bigint, bigint)',
                    'look_through_log(bigint)',
                    'log_write(bigint, bigint, timestamptz, uuid, text, text, json, text)',
                    'long_rest(text)',
                    'move_feed(bigint, bigint, tid, uuid, bigint, bigint, bigint, uuid, bigint, bytea, bigint, bigint, bigint, '
                        || 'bigint, bigint, bigint, bigint)',
                    'move_head(bigint, bigint, bigint, tid, uuid, uuid)',
                    'newest_feed_place(tid)',
                    'newest_follow_place(tid)',
                    'note_writes(bigint, text[], text[], bigint)',
                    'note_writes(bigint, text[], text[], bytea[], bigint)',
                    'newest_gaps(int8multirange)',
                    'newest_place(tid)',
                    'number_text(numeric)',
                    'priorities_above(text)',
                    'put_leaf(bigint, bigint, text, json)',
                    'put_leaves(bigint, bigint, text[], text[], text[])',
                    'replace_priority(bigint, bigint, text, text[])',
                    'replace_rows(bigint, bigint, text, text[], text[])',
                    'resolved_value(jsonb, bigint, text, bigint)',
                    'same_scalar(json, json)',
                    'same_value(json, json)',
                    'save_session(bigint, text, uuid, bigint, bigint, boolean, json, json)',
                    'scalar_text(jsonb)',
                    'server_value(bigint, text, jsonb, bigint)',
                    'stored_rest(text)',
                    'take_seq(text)',
                    'transaction_batch()',
                    'write_leaf(text, text, json, text)',
                    'write_place(text, text, jsonb, text)',
                    'write_places(text, text, text, text[], jsonb[], text)'
                ]),
                ('pathmirror_writer', array[
                    'set(text, text, jsonb)',
                    'update(text, text, jsonb)',
                    'remove(text, text)'
                ]),
                ('pathmirror_reader', array[
                    'get(text, text, text)',
                    'get_json(text, text)',
                    'wait_for(text, bigint, interval, text)',
                    'changes_at(text, text, bigint, bigint)',
                    'seq_at(text, timestamptz)',
                    'version_seq(bigint)',
                    -- Functions that the functions above and the views call.
                    'application_step(text, boolean)',
                    'each_change(json)',
                    'full_path(text, text)',
                    'has_many_partitions()',
                    'is_key(text)',
                    'long_key(text)',
                    'namespace_id(text)',
                    'node_range(text)',
                    'path_cut(bytea)',
                    'path_keys(text)',
                    'place_setting(text)',
                    'plain_form(jsonb)',
                    'shared_keys(text[], text[])',
                    'stored_key(text)'
                ])
        ) as list (role_name, names) on
            role.rolname = list.role_name
            -- Writers may also read, and gateways may call all functions of the other roles.
            or (role.rolname = 'pathmirror_writer' and list.role_name = 'pathmirror_reader')
            or role.rolname = 'pathmirror_gateway'
        cross join lateral unnest(list.names) as callable (name)
        where role.rolname in ('pathmirror_reader', 'pathmirror_writer', 'pathmirror_gateway')
    loop
        execute format('grant execute on function pathmirror.%s to %I', granted.name, granted.role_name);
    end loop;

    for granted in
        select rolname as role_name from pg_roles
        where rolname in ('pathmirror_reader', 'pathmirror_writer', 'pathmirror_gateway')
    loop
        execute format(
            'grant select on pathmirror.log_entry, pathmirror.log_change, pathmirror.log_cursor, pathmirror.mirror_status, '
            'pathmirror.mirror_misfit, pathmirror.feed_status, pathmirror.follow_status to %I', granted.role_name);
    end loop;
end
$$;
