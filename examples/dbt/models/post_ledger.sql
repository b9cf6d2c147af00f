-- A row for each post so far, with the time of its removal. Each run reads the rows that have changed since the last one: a mirror with
-- "deleted": "soft" keeps the rows of removed posts, with the _seq of the removal.
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
