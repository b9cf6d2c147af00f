-- Base64, which etcd's JSON wants for keys and values.
local letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local function letter(number)
    return letters:sub(number + 1, number + 1)
end

return function(text)
    local out = {}
    for at = 1, #text, 3 do
        local a, b, c = text:byte(at, at + 2)
        local bits = a * 65536 + (b or 0) * 256 + (c or 0)
        out[#out + 1] = letter(math.floor(bits / 262144)) .. letter(math.floor(bits / 4096) % 64)
            .. (b and letter(math.floor(bits / 64) % 64) or "=") .. (c and letter(bits % 64) or "=")
    end
    return table.concat(out)
end
