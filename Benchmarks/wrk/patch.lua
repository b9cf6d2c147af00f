-- PATCHes of many records each, of random keys. Arguments after "--": a seed, the records of one request.
local counter = 0

function setup(thread)
    counter = counter + 1
    thread:set("id", counter)
end

function init(arguments)
    count = tonumber(arguments[2])
    math.randomseed(tonumber(arguments[1]) * 100 + id)
    head = "PATCH " .. wrk.path .. " HTTP/1.1\r\nHost: " .. wrk.host .. ":" .. wrk.port
        .. "\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    record = '"p%d":{"author":"user%d","createdAt":%d,"starCount":%d,"title":"The title of post number %d"}'
end

function request()
    local base, records = math.random(1, 1000000) * count, {}
    for n = 1, count do
        local number = base + n
        records[n] = string.format(record, number, number % 1000, 1760000000000 + number, number % 50, number)
    end
    local body = "{" .. table.concat(records, ",") .. "}"
    return string.format(head, #body) .. body
end

dofile((debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or ".") .. "/report.lua")
