-- A row for each post that ever was, and when it was removed. Each run takes the rows that have changed since the last one: a mirror with
-- "deleted": "soft" has rows of what was removed, and their _seq is that of the removal.
{{ config(materialized='incremental', unique_key='post_id') }}

select
    post_id,
    author,
    star_count,
    _deleted_at as removed_at,
    _seq
from {{ source('mirror', 'all_posts') }}
{% if is_incremental() %}
where _seq >= (select coalesce(max(_seq), 0) from {{ this }})
{% endif %}
