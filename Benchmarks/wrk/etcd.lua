-- Puts to random keys of an etcd by its HTTP gateway, as put.lua's. Arguments after "--": how many keys one transaction writes
-- (1: a put, no transaction), the number of keys, a seed, the value's length. Keys and values are encoded before, so that the
-- generator has as little to do as with put.lua.
local folder = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "."
local base64 = dofile(folder .. "/base64.lua")
local counter = 0

function setup(thread)
    counter = counter + 1
    thread:set("id", counter)
end

function init(arguments)
    many, keys = tonumber(arguments[1]), tonumber(arguments[2])
    math.randomseed(tonumber(arguments[3]) * 100 + id)
    names = {}
    for key = 1, keys do
        names[key] = base64("/bench/k" .. key)
    end
    -- Three bytes are four letters: other data than filler changes whole groups of them.
    filler = base64(string.rep("x", tonumber(arguments[4]) - 9))
    assert(not filler:find("="), "the length must be divisible by three")
    stamps = {}
    for number = 1, 1000 do
        stamps[number] = base64(string.format("%09d", math.random(100000000, 999999999)))
    end
    local path = many == 1 and "/v3/kv/put" or "/v3/kv/txn"
    head = "POST " .. path .. " HTTP/1.1\r\nHost: " .. wrk.host .. ":" .. wrk.port
        .. "\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
end

local function put(key)
    return '{"key":"' .. names[key] .. '","value":"' .. filler .. stamps[math.random(1, 1000)] .. '"}'
end

function request()
    local body
    if many == 1 then
        body = put(math.random(1, keys))
    else
        local puts, first = {}, math.random(1, keys / many)
        for n = 1, many do
            puts[n] = '{"requestPut":' .. put(first + (n - 1) * keys / many) .. "}"
        end
        body = '{"success":[' .. table.concat(puts, ",") .. "]}"
    end
    return string.format(head, #body) .. body
end

dofile(folder .. "/report.lua")
