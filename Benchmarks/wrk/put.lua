-- PUTs to random keys. Arguments after "--": the shape ("leaf" or "object"), the number of keys, a seed, the value's
-- length; and, where it is to be held to a rate, how many a second each thread may send. Values differ from request to request, because a PUT of the current value would write nothing.
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

-- wrk waits so many milliseconds before a connection's next request, if there is such a function.
local function paced(rate)
    local ffi = require("ffi")
    ffi.cdef("typedef struct { long seconds, nanoseconds; } moment; int clock_gettime(int, moment *);")
    local moment, due = ffi.new("moment"), nil
    return function()
        ffi.C.clock_gettime(1, moment)
        local now = (tonumber(moment.seconds) * 1000 + tonumber(moment.nanoseconds) / 1e6)
        -- What could not be sent in time is not made up for by a burst later on.
        due = math.max((due or now) + 1000 / rate, now - 20)
        return math.max(0, math.floor(due - now + 0.5))
    end
end

local begin = init
function init(arguments)
    begin(arguments)
    if arguments[5] then delay = paced(tonumber(arguments[5])) end
end

dofile((debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or ".") .. "/report.lua")
