-- What gateways sign the ids of stream events with, so that a stream resumes only behind an id that was given to a reader
-- of the same place. All gateways of a namespace share it; it opens nothing else.

alter table pathmirror.namespace add column stream_key uuid not null default gen_random_uuid();

comment on column pathmirror.namespace.stream_key is 'What gateways sign the ids of stream events with.';
