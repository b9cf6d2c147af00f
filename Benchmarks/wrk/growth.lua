-- PUTs to random leaves of a tree. Arguments after "--": the query part of the target, the number of leaves, how many children a node
-- has (0: all are one node's), a seed, the value's length.
local counter = 0

function setup(thread)
    counter = counter + 1
    thread:set("id", counter)
end

function init(arguments)
    leaves, width = tonumber(arguments[2]), tonumber(arguments[3])
    math.randomseed(tonumber(arguments[4]) * 100 + id)
    head = "PUT /bench/%s.json?print=silent&" .. arguments[1] .. " HTTP/1.1\r\nHost: " .. wrk.host .. ":" .. wrk.port
        .. "\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    filler = string.rep("x", tonumber(arguments[5]) - 9)
end

function request()
    local leaf = math.random(0, leaves - 1)
    local place = width == 0 and "k" .. leaf or string.format("n%d/k%d", math.floor(leaf / width), leaf % width)
    local body = '"' .. filler .. math.random(100000000, 999999999) .. '"'
    return string.format(head, place, #body) .. body
end

dofile((debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or ".") .. "/report.lua")
