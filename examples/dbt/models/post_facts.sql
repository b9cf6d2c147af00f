-- A row for each post, with its expensive columns. Each run reads the posts that were written since the last one, and deletes the rows of
-- removed posts: a mirror has no rows of these.
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
