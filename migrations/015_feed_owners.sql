-- What may be shown of a feed is made from its definition when it is asked for.
alter table pathmirror.feed drop column public_definition;
