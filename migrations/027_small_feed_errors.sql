-- Each failure of a message writes its row again. The errors stay in the row, and the row's versions in their page, so that failures leave
-- nothing behind that only a vacuum of the errors' own table would take away.
alter table pathmirror.feed_message alter column errors set storage main;
alter table pathmirror.feed_message set (fillfactor = 50);
