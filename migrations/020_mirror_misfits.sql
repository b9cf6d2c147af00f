-- Who reports on mirrors may see why a value is NULL: functions/mirror_misfit.sql has the view, privileges.sql who reads it.

comment on table pathmirror.mirror_error is
    'Values that did not fit their columns, as of each mirror''s cursor. The view mirror_misfit is for those who report.';
