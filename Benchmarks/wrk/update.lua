-- Updates of ten paths at once, each a string. Arguments after "--": the number of keys, a seed, the values' length.
local counter = 0

function setup(thread)
    counter = counter + 1
    thread:set("id", counter)
end

function init(arguments)
    keys = tonumber(arguments[1])
    math.randomseed(tonumber(arguments[2]) * 100 + id)
    head = "PATCH /bench.json?print=silent HTTP/1.1\r\nHost: " .. wrk.host .. ":" .. wrk.port
        .. "\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    filler = string.rep("x", tonumber(arguments[3]) - 9)
end

function request()
    local paths, first = {}, math.random(1, keys / 10)
    for n = 0, 9 do
        paths[n + 1] = '"k' .. (first + n * keys / 10) .. '":"' .. filler .. math.random(100000000, 999999999) .. '"'
    end
    local body = "{" .. table.concat(paths, ",") .. "}"
    return string.format(head, #body) .. body
end

dofile((debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or ".") .. "/report.lua")
