-- PUTs of a small value to one place of a namespace at random. Arguments after "--": how many namespaces, a seed.
-- Values differ from request to request, because a PUT of the current value would write nothing.
local counter = 0

function setup(thread)
    counter = counter + 1
    thread:set("id", counter)
end

function init(arguments)
    count = tonumber(arguments[1])
    math.randomseed(tonumber(arguments[2]) * 100 + id)
    head = "PUT /bench/k%d.json?ns=n%d HTTP/1.1\r\nHost: " .. wrk.host .. ":" .. wrk.port
        .. "\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n%d"
end

function request()
    return string.format(head, math.random(1, 4), math.random(1, count), math.random(100000000, 999999999))
end

dofile((debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or ".") .. "/report.lua")
