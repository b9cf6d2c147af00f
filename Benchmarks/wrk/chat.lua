-- Chat messages of five fields to random keys. Arguments after "--": the query part of the target, the number of keys, a seed.
local counter = 0

function setup(thread)
    counter = counter + 1
    thread:set("id", counter)
end

function init(arguments)
    keys = tonumber(arguments[2])
    math.randomseed(tonumber(arguments[3]) * 100 + id)
    head = "PUT /rooms/r1/messages/m%d.json?" .. arguments[1] .. " HTTP/1.1\r\nHost: " .. wrk.host .. ":" .. wrk.port
        .. "\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
end

function request()
    local body = '{"from":"ada","text":"message number ' .. math.random(100000000, 999999999)
        .. '","kind":"text","likes":0,"at":' .. math.random(100000000, 999999999) .. '}'
    return string.format(head, math.random(1, keys), #body) .. body
end

dofile((debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or ".") .. "/report.lua")
