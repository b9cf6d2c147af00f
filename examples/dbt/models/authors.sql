-- A row for each author: how much he wrote, and how it was liked.
select
    author,
    count(*) as posts,
    sum(star_count) as stars,
    max(_updated_at) as last_change
from {{ source('mirror', 'posts') }}
group by author
