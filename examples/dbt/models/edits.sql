-- A row for each write, change or removal of a post's text. Each run adds the new ones: rows of a table of changes never change.
{{ config(materialized='incremental', unique_key=['post_id', '_seq']) }}

select
    post_id,
    _seq,
    _at as edited_at,
    _operation as operation,
    case when _admin then 'an administrator' else coalesce(_uid, 'nobody signed in') end as editor,
    coalesce(length(_new ->> 'text'), 0) - coalesce(length(_old ->> 'text'), 0) as letters_more
from {{ source('mirror', 'posts_changes') }}
where
    _old ->> 'text' is distinct from _new ->> 'text'
    {% if is_incremental() %}
    and _seq >= (select coalesce(max(_seq), 0) from {{ this }})
    {% endif %}
