-- A row for each post, with what is costly to make of it. Each run looks at the posts that were written since the last one, and takes out those
-- that are gone: a mirror has no rows of what was removed.
{{
    config(
        materialized='incremental',
        unique_key='post_id',
        post_hook="delete from {{ this }} as fact where not exists (
            select from {{ source('mirror', 'posts') }} as post where post.post_id = fact.post_id)"
    )
}}

select
    post_id,
    author,
    length(text) as letters,
    cardinality(regexp_split_to_array(trim(text), '\s+')) as words,
    star_count,
    _seq
from {{ source('mirror', 'posts') }}
{% if is_incremental() %}
where _seq >= (select coalesce(max(_seq), 0) from {{ this }})
{% endif %}
