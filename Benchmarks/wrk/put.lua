-- PUTs to random keys. Arguments after "--": the shape ("leaf" or "object"), the number of keys, a seed, the value's
-- length. Values differ from request to request, as a PUT of what is there already would write nothing.
local counter = 0

function setup(thread)
    counter = counter + 1
    thread:set("id", counter)
end

function init(arguments)
    shape, keys, length = arguments[1], tonumber(arguments[2]), tonumber(arguments[4])
    math.randomseed(tonumber(arguments[3]) * 100 + id)
    head = "PUT /bench/%s%d.json HTTP/1.1\r\nHost: " .. wrk.host .. ":" .. wrk.port
        .. "\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    filler = string.rep("x", length - 9)
end

function request()
    local key, stamp = math.random(1, keys), math.random(100000000, 999999999)
    local body
    if shape == "leaf" then
        body = '"' .. filler .. stamp .. '"'
        return string.format(head, "k", key, #body) .. body
    end
    body = '{"active":true,"age":' .. stamp % 100 .. ',"email":"ada.' .. stamp .. '@example.com","name":"Ada Lovelace '
        .. stamp .. '","updated":' .. stamp .. '}'
    return string.format(head, "o", key, #body) .. body
end

dofile((debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or ".") .. "/report.lua")
